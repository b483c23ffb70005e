# drowse: completion for PowerShell. In $PROFILE:  drowse completions powershell | Out-String | Invoke-Expression
Register-ArgumentCompleter -Native -CommandName drowse -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $line = $commandAst.Extent.Text
    $typed = $cursorPosition - $commandAst.Extent.StartOffset
    # A blank at the end is no part of the command.
    if ($typed -gt $line.Length) { $line = $line.PadRight($typed) } else { $line = $line.Substring(0, $typed) }
    $before = $env:DROWSE_COMPLETE_LINE
    try {
        $env:DROWSE_COMPLETE_LINE = $line
        & drowse complete-words powershell 2>$null | ForEach-Object {
            $word, $listed, $about = $_ -split "`t", 3
            [System.Management.Automation.CompletionResult]::new($word, $listed, 'ParameterValue', $about)
        }
    } finally {
        $env:DROWSE_COMPLETE_LINE = $before
    }
}

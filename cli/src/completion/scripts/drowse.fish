# drowse: completion for fish. In ~/.config/fish/config.fish:  drowse completions fish | source
function __drowse_complete
    set -l words (commandline -opc)
    command drowse complete-words fish $words[2..-1] (commandline -ct) 2>/dev/null
end
complete -c drowse -f -k -a '(__drowse_complete)'

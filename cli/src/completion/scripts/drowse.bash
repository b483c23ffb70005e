# drowse: completion for bash. In ~/.bashrc:  source <(drowse completions bash)
_drowse_complete() {
    local IFS=$'\n'
    # Words come quoted, and with the blank that ends them.
    compopt -o nospace 2>/dev/null
    COMPREPLY=()
    local word
    while read -r word; do COMPREPLY+=("$word"); done \
        < <(command drowse complete-words bash "${COMP_LINE:0:COMP_POINT}" "$2" 2>/dev/null)
}
complete -F _drowse_complete drowse

#!/usr/bin/env bash
# Proves that the release core needs no std, no allocator and no unwinder, and cannot panic: links it into a program
# without libraries whose panic handler refers to a symbol that exists nowhere, looks at what was linked, and runs it.
# Needs cargo, a C compiler and binutils. Linux on x86-64 only, since start.c speaks to that kernel.
set -euo pipefail
cd "$(dirname "$0")"

if [[ "$(uname -sm)" != "Linux x86_64" ]]; then
    echo "gates: skipped, start.c is written for Linux on x86-64 and this is $(uname -sm)"
    exit 0
fi

cc=${CC:-gcc}
target=target
out=$target/images
mkdir -p "$out"
# What may not appear in the image: allocators, std and alloc, unwinders, and the ways to panic.
forbidden='(^|[^a-z_])(malloc|calloc|realloc|free|aligned_alloc|posix_memalign)$|__rust_(alloc|dealloc|realloc)|__rg_|__rdl_|_Unwind_|eh_personality|<?(std|alloc)::|panicking|panic_|(unwrap|expect|index|mismatch|error)_fail(ed)?$|begin_unwind'

failed() {
    echo "gates: FAILED: $*" >&2
    exit 1
}

build() { # profile, features -> the library
    cargo build --quiet --target-dir "$target" --profile "$1" ${2:+--features "$2"}
    cp "$target/$1/libdrowse_gates.a" "$out/$1${2:+-$2}.a"
}

compile() { # source
    "$cc" -std=c11 -Os -Wall -Wextra -Werror -ffreestanding -fno-builtin -fno-stack-protector -fPIE \
        -fno-asynchronous-unwind-tables -fno-tree-loop-distribute-patterns -c "$1.c" -o "$out/$1.o"
}

link() { # library, image, more flags
    "$cc" -nostdlib -static -Wl,--gc-sections -Wl,--build-id=none -o "$2" "$out/start.o" "$out/board.o" "$1" "${@:3}"
}

# Which functions refer to a way to panic.
culprits() { # object files
    objdump -dr --no-show-raw-insn -C "$@" 2>/dev/null | awk '
        /^[0-9a-f]+ <.*>:$/ { from = $0; sub(/^[0-9a-f]+ </, "", from); sub(/>:$/, "", from) }
        /R_X86_64/ && /(panicking::|(unwrap|expect|index|mismatch|error)_fail)/ {
            to = $0; sub(/^.*R_X86_64_[A-Z0-9_]+[ \t]+/, "", to); sub(/-0x[0-9a-f]+$/, "", to)
            if (from !~ /^core::(panicking|slice::index::slice_|option::|result::)/) print "  " from "  ->  " to
        }' | sort -u
}

compile start
compile board

for profile in release small; do
    build "$profile"
    image=$out/$profile
    if ! link "$out/$profile.a" "$image" 2>"$out/link.log"; then
        grep -q drowse_core_has_a_panic_path "$out/link.log" || { cat "$out/link.log" >&2; failed "it does not link"; }
        link "$out/$profile.a" "$image.panics" -Wl,--emit-relocs -Wl,--defsym,drowse_core_has_a_panic_path=0
        echo "ways to panic in the $profile build:" >&2
        culprits "$image.panics" >&2
        failed "the core has a panic path (profile $profile)"
    fi
    undefined=$(nm -u "$image")
    [[ -z "$undefined" ]] || failed "undefined symbols: $undefined"
    symbols=$(nm -C --defined-only "$image" | cut -d' ' -f3-)
    [[ $(grep -c 'drowse_core::' <<<"$symbols") -gt 50 ]] || failed "the image does not hold the core"
    found=$(grep -E "$forbidden" <<<"$symbols" || true)
    [[ -z "$found" ]] || failed "the image holds: $found"
    echo "== $profile: no allocator, std, unwinder or panic among $(wc -l <<<"$symbols") symbols"
    size "$image"
    nm -CS --size-sort -t d "$image" | awk '
        tolower($3) == "t" { all += $2; if (index($0, "drowse_core::")) core += $2 }
        END { printf "functions: %d bytes, of which drowse-core %d\n", all, core }'
    "$image" || failed "the program ended with status $?"
done

# What the loop alone costs a device; the C side is counted apart, since a device has its own.
build small lean
link "$out/small-lean.a" "$out/lean"
"$out/lean" >/dev/null || failed "the lean program ended with status $?"
sum() { size "$@" | awk 'NR > 1 { text += $1 } END { print text }'; }
echo "== the loop alone, built for size: text $(($(sum "$out/lean") - $(sum "$out/start.o" "$out/board.o"))) bytes"

# A generic function exists only where it is called, so each public one of a generic type must be called here, or by
# the replay of a trace. (Link is called through Server.)
uncalled=$(awk '
    /^impl<[A-Z]/ { generic = 1 }
    /^}/ { generic = 0 }
    generic && match($0, /pub (const )?fn [a-z_0-9]+/) {
        name = substr($0, RSTART, RLENGTH); sub(/.* /, "", name); print FILENAME, name
    }' $(find ../core/src -name '*.rs' ! -path '*/link*') |
    while read -r file name; do grep -qw "$name" src/*.rs ../core/src/trace.rs || echo "  $name ($file)"; done)
[[ -z "$uncalled" ]] || { echo "$uncalled" >&2; failed "generic functions of the core that src/ does not call"; }

# The image holds what it calls. The library by itself holds every function that is not generic, called or not.
cargo build --quiet --target-dir "$target" --profile plain -p drowse-core
library=$target/plain/libdrowse_core.rlib
[[ $(nm -C "$library" 2>/dev/null | grep -c ' T .*drowse_core::') -gt 40 ]] || failed "the library holds no functions"
found=$(culprits "$library")
[[ -z "$found" ]] || { echo "$found" >&2; failed "functions of the library can panic"; }
echo "== library: no panic in any function"

# And the proof would fail if there were one.
build release planted-panic
if link "$out/release-planted-panic.a" "$out/planted" 2>"$out/link.log"; then
    failed "a planted panic was not noticed"
fi
grep -q drowse_core_has_a_panic_path "$out/link.log" || { cat "$out/link.log" >&2; failed "the planted panic does not link for another reason"; }
link "$out/release-planted-panic.a" "$out/planted" -Wl,--emit-relocs -Wl,--defsym,drowse_core_has_a_panic_path=0
[[ "$(culprits "$out/planted")" == *drowse_run* ]] || failed "the planted panic is not found"
echo "== a planted panic is found"

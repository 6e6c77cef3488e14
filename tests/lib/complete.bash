# SPDX-License-Identifier: Apache-2.0
# usage: bash --norc complete.bash FOLDER LINE: prints what bash offers at the end of LINE, one word a line, with the
# completions in FOLDER. Splits the line into words as readline does: at blanks and at "=".
folder=$1 COMP_LINE=$2
COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
read -ra parts <<<"$COMP_LINE"
[[ $COMP_LINE == *[[:blank:]] ]] && parts+=("")
COMP_WORDS=()
for part in "${parts[@]}"; do
	while [[ $part == *=* ]]; do
		[[ ${part%%=*} ]] && COMP_WORDS+=("${part%%=*}")
		COMP_WORDS+=("=")
		part=${part#*=}
		[[ $part ]] || continue 2
	done
	COMP_WORDS+=("$part")
done
COMP_POINT=${#COMP_LINE}
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
. "$folder/${COMP_WORDS[0]}.bash"
"_${COMP_WORDS[0]}"
((${#COMPREPLY[@]})) && printf '%s\n' "${COMPREPLY[@]}"
exit 0

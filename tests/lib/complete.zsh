# SPDX-License-Identifier: Apache-2.0
# usage: zsh -f complete.zsh FOLDER LINE: prints what zsh offers at the end of LINE, one word a line, with the
# completions in FOLDER. Types the line into a zsh in a pseudo-terminal, whose compadd prints its words.
zmodload zsh/zpty
folder=$1 line=$2
zpty z zsh -f -i
zpty -w z "PS1=; PS2=; unsetopt beep; stty -echo; fpath=(${(q)folder} \$fpath)"
zpty -w z "autoload -Uz compinit; compinit -C -d ${(q)folder}/zcompdump"
# A call with -O, -A or -D only asks for the matches. The completion offers them in a later call.
zpty -w z 'compadd() {
	local -a hits
	local word
	for word; do
		[[ $word == - || $word == -- ]] && break
		if [[ $word =~ "^-[a-zA-Z0-9]*[OAD]\$" ]]; then
			builtin compadd "$@"
			return
		fi
	done
	builtin compadd -A hits "$@"
	((${#hits})) && print -rl -- "@"${^hits}
	builtin compadd "$@"
}'
zpty -w z 'say_begin() { print -r -- "@@be""gin" }; say_end() { print -r -- "@@e""nd" }'
zpty -w z 'compprefuncs=(say_begin); comppostfuncs=(say_end); print "@@rea""dy"'
zpty -r z output '*@@ready*'  # the typed line has the word in two parts, so only its output matches
zpty -w -n z "$line"$'\t'
zpty -r z output '*@@end*'
output=${output#*@@begin}
for word in ${(f)"${output//$'\r'/}"}; do
	[[ $word == @[^@]* ]] && print -r -- "${word#@}"
done
zpty -d z

# SPDX-License-Identifier: Apache-2.0
# usage: zsh -f complete.zsh FOLDER LINE: what zsh offers at the end of LINE, one a line, with the completions
# in FOLDER. The line is typed into a zsh in a pseudo-terminal, whose compadd says what it is given.
zmodload zsh/zpty
folder=$1 line=$2
zpty z zsh -f -i
zpty -w z "PS1=; PS2=; unsetopt beep; stty -echo; fpath=(${(q)folder} \$fpath)"
zpty -w z "autoload -Uz compinit; compinit -C -d ${(q)folder}/zcompdump"
# Whoever only asks what would match is answered, and offers it later.
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
zpty -r z output '*@@ready*'  # in two parts above, so that the line being typed is not taken for what it says
zpty -w -n z "$line"$'\t'
zpty -r z output '*@@end*'
output=${output#*@@begin}
for word in ${(f)"${output//$'\r'/}"}; do
	[[ $word == @[^@]* ]] && print -r -- "${word#@}"
done
zpty -d z

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A small agent for Ollama whose tools run in a cloister workspace. usage: agent.sh DIRECTORY PROMPT
set -euo pipefail

rounds=25
# As Ollama takes it: also without the scheme, and then without the port.
ollama=${OLLAMA_HOST:-127.0.0.1}
case $ollama in
*://*) ;;
:*) ollama=http://127.0.0.1$ollama ;;
*:*) ollama=http://$ollama ;;
*) ollama=http://$ollama:11434 ;;
esac
model=${MODEL:-qwen3:4b}

[ $# = 2 ] || { echo "usage: agent.sh DIRECTORY PROMPT" >&2; exit 2; }
directory=$(realpath -- "$1")
tools=$(cloister --workspace "$directory" tools --format=ollama)
messages=$(jq -n --arg prompt "$2" '[{role: "user", content: $prompt}]')

for ((round = 0; round < rounds; round++)); do
	# Through stdin: a conversation may be longer than a command line.
	message=$(jq -c --arg model "$model" --argjson tools "$tools" \
		'{model: $model, messages: ., tools: $tools, stream: false}' <<<"$messages" |
		curl --silent --show-error --fail --data-binary @- "${ollama%/}/api/chat" | jq -c .message)
	messages=$(jq -c '. + [input]' <<<"$messages $message")
	if [ "$(jq '.tool_calls | length' <<<"$message")" = 0 ]; then
		jq -r .content <<<"$message"
		exit
	fi
	while read -r call; do
		# The arguments as JSON, as the model gave them: nothing is for this shell to interpret.
		reply=$(cloister --workspace "$directory" call --option reply=message \
			"$(jq -r .function.name <<<"$call")" "$(jq -c .function.arguments <<<"$call")")
		messages=$(jq -c '. + [input]' <<<"$messages $reply")
	done < <(jq -c '.tool_calls[]' <<<"$message")
done
echo "agent: the model was not done after $rounds rounds" >&2
exit 1

/* SPDX-License-Identifier: Apache-2.0 */
/* Where workspaces are: tenant, workspace, hosts, and the chosen one. The tests of the three
 * clients read this table; a row never changes, since a workspace would then move. */
/* clang-format off */
{"blue", "build", "a", "a"},
{"blue", "build", "a b", "b"},
{"blue", "build", "b a", "b"},
{"blue", "build", "a b c", "c"},
{"green", "build", "a b c", "a"},
{"blue", "build2", "a b c", "a"},
{"blue", "", "a b c", "a"},
{"", "build", "a b c", "a"},
{"blu", "ebuild", "a b c", "b"},
{"blue", "/home/me/tree", "node-1 node-2 node-3 node-4", "node-1"},
{"blue", "Übung", "host-ä host-ö", "host-ä"},
{"alice", "w17", "cloister-0 cloister-1 cloister-2 cloister-3 cloister-4", "cloister-3"},
{"alice", "w18", "cloister-0 cloister-1 cloister-2 cloister-3 cloister-4", "cloister-4"},
{"alice", "w17", "cloister-0 cloister-1 cloister-2 cloister-4", "cloister-2"},
{"twice", "x", "a a", "a"},
	/* clang-format on */

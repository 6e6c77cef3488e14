/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What cloisterd and cloister-files say to each other. Down (socketpair): one request frame a call,
 * then, for a write, its content in FILES_BODY frames. Up (pipe): any number of FILES_DATA,
 * FILES_ENTRY or FILES_MATCH frames, then exactly one FILES_END. Encoder and decoder of each
 * message stand side by side in wire_files.c; texts in decoded messages are borrowed from the
 * frame.
 */

#include "common/errors.h"
#include "common/text.h"
#include "common/wire.h"

enum files_message {
	/* down */
	FILES_READ = 1,
	FILES_WRITE,
	FILES_LIST,
	FILES_SEARCH,
	FILES_BODY,   /* bytes of the content, in order */
	FILES_CANCEL, /* no payload: end the call now; it is answered with FILES_END */
	FILES_CLEAR,  /* no payload: remove everything in the workspace, before it is removed itself
		       */
	FILES_SWEEP,  /* no payload: remove what writes that died have left; its end is nobody's */
	/* up */
	FILES_READY = 32, /* set-up is complete */
	FILES_FAILED,     /* set-up failed: struct setup_failure */
	FILES_DATA,       /* bytes of a read file, in order */
	FILES_ENTRY,      /* struct files_entry */
	FILES_MATCH,      /* struct files_match */
	FILES_END,        /* struct files_end */
};

/* Paths are relative to the workspace's root, or absolute and inside the visible root. */
struct files_read {
	struct text path;
	uint64_t start_line; /* from 1; 0: not given */
	uint64_t end_line;   /* inclusive; 0: not given */
	bool numbered;       /* number the lines as cat -n does */
	bool raw;            /* the bytes as they are, also of a binary file (encoding base64) */
};

struct files_write {
	struct text path;
	uint64_t size; /* of the content, which follows in FILES_BODY frames */
	bool create_dirs;
	bool durable; /* on disk before it is answered */
};

struct files_list {
	struct text path;
	struct text pattern; /* glob; empty: every entry */
	bool recursive;
	bool gitignore;
	uint32_t max_entries;
};

struct files_search {
	struct text pattern; /* PCRE2 */
	struct text path;
	struct text file_pattern; /* glob; empty: every file */
	bool gitignore;
	uint32_t max_results;
};

enum files_type {
	FILES_TYPE_FILE = 1,
	FILES_TYPE_DIRECTORY,
	FILES_TYPE_SYMLINK,
	FILES_TYPE_FIFO,
	FILES_TYPE_SOCKET,
	FILES_TYPE_CHARACTER_DEVICE,
	FILES_TYPE_BLOCK_DEVICE,
	FILES_TYPE_UNKNOWN,
};

struct files_entry {
	struct text path; /* relative to the workspace's root */
	uint8_t type;     /* enum files_type */
	uint64_t size;
	uint64_t mtime_ns;  /* since the epoch; earlier times are 0 */
	struct text target; /* of a symbolic link, otherwise empty */
};

struct files_match {
	struct text path; /* relative to the workspace's root */
	uint64_t line;    /* from 1 */
	struct text text; /* the line without its newline, cut to LIMIT_SEARCH_LINE_BYTES around the
			     match */
	bool cut;
};

/* How a call ended. Which fields hold something depends on the request; the others are 0 or empty.
 */
struct files_end {
	uint32_t error;      /* enum tool_error */
	struct text message; /* a sentence for the model; empty: the code's own */
	struct text path;    /* the resolved path, relative to the workspace's root; "." is the root
				itself */
	bool truncated;      /* read, list, search: there was more */
	bool binary;         /* read */
	bool created;        /* write: there was no such file before */
	uint64_t size;       /* read: of the file; write: bytes written */
	uint64_t lines;      /* read: in the content */
	uint64_t total_lines; /* read: of the file, 0 if not counted */
	uint64_t count;       /* list: entries; search: matches */
	uint64_t files_searched;
	uint64_t files_skipped; /* search: binary, over-large or unreadable */
	struct text type;       /* read, binary: what its first bytes say, such as "image/png" */
};

void files_read_put(struct wire_writer *writer, const struct files_read *message);
int files_read_get(struct text payload, struct files_read *ret);
void files_write_put(struct wire_writer *writer, const struct files_write *message);
int files_write_get(struct text payload, struct files_write *ret);
void files_list_put(struct wire_writer *writer, const struct files_list *message);
int files_list_get(struct text payload, struct files_list *ret);
void files_search_put(struct wire_writer *writer, const struct files_search *message);
int files_search_get(struct text payload, struct files_search *ret);
void files_entry_put(struct wire_writer *writer, const struct files_entry *message);
int files_entry_get(struct text payload, struct files_entry *ret);
void files_match_put(struct wire_writer *writer, const struct files_match *message);
int files_match_get(struct text payload, struct files_match *ret);
void files_end_put(struct wire_writer *writer, const struct files_end *message);
int files_end_get(struct text payload, struct files_end *ret);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The protocol between cloisterd and the files process. Down, on a socketpair, goes one request
 * frame for each call and, for a write, the content in FILES_BODY frames. Up, on a socket, comes
 * any number of FILES_DATA, FILES_IMAGE, FILES_ENTRY or FILES_MATCH frames, then exactly one
 * FILES_END; none of these is empty. wire_files.c has the encoder and decoder of each message side
 * by side. Texts in decoded messages are borrowed from the frame.
 */

#include "common/errors.h"
#include "common/text.h"
#include "common/wire/wire.h"

enum files_message {
	/* down */
	FILES_READ = 1,
	FILES_WRITE,
	FILES_LIST,
	FILES_SEARCH,
	FILES_BODY,   /* bytes of the content, in order */
	FILES_CANCEL, /* no payload: end the call now; FILES_END follows */
	/* no payload: remove everything in the workspace, which is about to be removed */
	FILES_CLEAR,
	/*
	 * struct files_sweep: remove the temporary files of writes that died, and measure what all
	 * files take on disk; its FILES_END belongs to no call. FILES_CANCEL ends it
	 */
	FILES_SWEEP,
	FILES_EDIT,  /* struct files_edit; the edits follow in FILES_BODY frames */
	FILES_GO,    /* no payload: make the change that FILES_HELD told of */
	FILES_PATCH, /* struct files_patch; its parts follow in FILES_BODY frames */
	FILES_DIFF,  /* struct files_diff */
	/* struct files_ask, of the methods file.stat and so on; FILES_NODE come before the end */
	FILES_STAT,
	FILES_TREE,
	FILES_MAKE_DIRECTORY,
	FILES_RENAME,
	FILES_REMOVE,
	/*
	 * struct files_ask: read a file as a stream. A FILES_NODE tells what was opened, then each
	 * FILES_MORE is answered with so many bytes in FILES_DATA frames; the end of the file or of
	 * what was asked for is the call's.
	 */
	FILES_FETCH,
	FILES_MORE, /* struct files_amount */
	/*
	 * struct files_ask: watch a directory. A FILES_NODE tells what is watched, then FILES_EVENT
	 * come, of which all together, with their headers, may exceed what FILES_MORE have allowed
	 * by less than one. The end tells why nothing is watched any more.
	 */
	FILES_WATCH,
	/* up */
	FILES_READY = 32, /* struct files_ready: set-up is complete */
	FILES_FAILED,     /* set-up failed: struct setup_failure */
	FILES_DATA,       /* bytes of a read file, in order */
	FILES_IMAGE,      /* bytes of an image, in order, before the end of a binary read */
	FILES_ENTRY,      /* struct files_entry */
	FILES_MATCH,      /* struct files_match */
	/* struct files_trouble, before the end of an edit that was not made */
	FILES_TROUBLE,
	/*
	 * struct files_held: what a held write or edit would change; for a patch all is empty,
	 * since FILES_PATCHED have told it. FILES_GO or FILES_CANCEL follows, unless nothing is to
	 * be changed: then FILES_END does.
	 */
	FILES_HELD,
	/* struct files_patched for each file of a patch, before the first is changed */
	FILES_PATCHED,
	FILES_STEP, /* struct files_step */
	/* struct files_change; with a patch, FILES_DATA with the part of this change follow */
	FILES_CHANGE,
	FILES_TOTALS, /* struct files_totals, before the end of a diff */
	FILES_NODE,   /* struct files_node */
	FILES_TAKEN,  /* struct files_amount: bytes of a streamed body that were written */
	FILES_EVENT,  /* struct files_event */
	FILES_END,    /* struct files_end */
};

/* Paths are relative to the workspace's root, or absolute and inside the visible root. */
struct files_read {
	struct text path;
	uint64_t start_line; /* from 1; 0: not given */
	uint64_t end_line;   /* inclusive; 0: not given */
	bool numbered;       /* number the lines as cat -n does */
	/* the bytes as they are, also of a binary file (for encoding base64) */
	bool raw;
	bool images;  /* the bytes of a small image, in FILES_IMAGE frames */
	bool by_type; /* a file of a known binary format is binary also without a NUL */
};

struct files_write {
	struct text path;
	/* version that the file must have, "absent": it must not exist; empty: any */
	struct text expect;
	uint64_t size; /* size of the content, which follows in FILES_BODY frames */
	uint32_t mode; /* permission bits of the file; 0: those it had, or the usual ones */
	bool create_dirs;
	bool durable; /* fsync(2) before the answer */
	bool held;    /* waits for FILES_GO before the file gets its name */
	/* size is not known: FILES_GO ends the content, and each FILES_BODY has its FILES_TAKEN */
	bool streamed;
	/* the file gets these attributes, as of struct files_node, and no other ones user.* */
	bool sets_attributes;
	struct text attributes;
	/* with held: an earlier call may have made the change. If durable, what is there is written
	 * to disk before it is told */
	bool look;
};

/*
 * The edits: for each a byte, 1 if all occurrences are replaced, and two texts with their lengths
 * of four bytes, the old and the new one.
 */
struct files_edit {
	struct text path;
	struct text expect; /* version that the file must have; empty: any */
	uint64_t size;      /* of the encoded edits */
	bool durable;
	bool held, look; /* as in struct files_write */
};

#define FILES_EDIT_OVERHEAD 9ULL /* bytes of an encoded edit beside its texts */
#define FILES_VERSION_BYTES 32   /* of a version as text */

/*
 * A patch's body is a sequence of parts. Each part is a byte, one of these, and a text with its
 * length of four bytes. A file is its header, for an added file at most one run of + lines, and for
 * an updated file hunks: PATCH_PART_HUNK, anchors, runs of lines and, where the hunk ends with the
 * file, PATCH_PART_AT_END. Lines have no sign and end with a newline.
 */
enum files_patch_part {
	PATCH_PART_ADD = 'A',    /* the path of a file to make */
	PATCH_PART_UPDATE = 'U', /* the path of a file to change */
	PATCH_PART_DELETE = 'D', /* the path of a file to remove */
	PATCH_PART_MOVE = 'M',   /* after an update: the path that the file gets */
	PATCH_PART_HUNK = 'H',   /* no text */
	PATCH_PART_ANCHOR = '@', /* a line above the hunk, without its newline */
	PATCH_PART_CONTEXT = ' ',
	PATCH_PART_REMOVED = '-',
	PATCH_PART_ADDED = '+',
	PATCH_PART_AT_END = 'E', /* no text */
};

struct files_patch {
	uint64_t size; /* of the encoded parts */
	bool durable;
	bool held; /* as in struct files_write; FILES_PATCHED tell the versions */
	/*
	 * as in struct files_write; before anything else, FILES_PATCHED tell what is there at the
	 * patch's paths
	 */
	bool look;
};

#define FILES_PATCH_OVERHEAD 5ULL /* bytes of a part beside its text */
/* A path may be one byte longer than it was given. */
#define FILES_PATCH_MAX \
	(LIMIT_PATCH_BYTES + LIMIT_PATCH_PARTS * FILES_PATCH_OVERHEAD + 2ULL * LIMIT_PATCH_FILES)

enum files_operation { FILES_ADD = 1, FILES_UPDATE, FILES_DELETE, FILES_MOVE };

/* The next step of a patch. */
struct files_patched {
	uint32_t index;          /* from 0, in the order of the patch */
	uint8_t operation;       /* enum files_operation */
	struct text path;        /* relative to the workspace's root */
	struct text from;        /* move: the path before */
	uint64_t added, removed; /* lines */
	struct text version;     /* of the content afterwards; delete: empty */
	/*
	 * The present state: the file's version, "absent", or empty if it cannot be compared. For a
	 * move: that of the old path, a slash, and that of the new path.
	 */
	struct text found;
};

#define FILES_FOUND_BYTES (2 * FILES_VERSION_BYTES + 1)

/* Where a patch has got to with a file. A file is unchanged until its first step. */
enum files_state { FILES_UNCHANGED, FILES_BEGUN, FILES_CHANGED };

struct files_step {
	uint32_t index;
	uint8_t state; /* enum files_state; BEGUN: it is being changed, or put back */
};

struct files_list {
	struct text path;
	struct text pattern; /* glob; empty: every entry */
	bool recursive;
	bool gitignore;
	bool by_depth; /* with recursive: entries near the directory first, large ones collapsed */
	uint32_t max_entries;
};

struct files_search {
	struct text pattern; /* PCRE2 */
	struct text path;
	struct text file_pattern; /* glob; empty: every file */
	bool gitignore;
	uint32_t max_results;
	uint32_t offset;  /* matches that are passed over first */
	uint32_t context; /* lines on each side of a match that are told too */
};

/* A request for the changes of a workspace since a checkpoint. */
struct files_diff {
	uint32_t since; /* the number of that layer */
	bool patch;     /* tell the changes of text files as a patch */
	uint32_t max_changes;
};

/* The request of a method of files. Members that it does not use are 0 or empty. */
struct files_ask {
	struct text path;
	struct text to;       /* rename: the new path */
	uint64_t offset;      /* fetch: the first byte */
	uint64_t length;      /* fetch: how many bytes at most; UINT64_MAX: all */
	uint32_t depth;       /* tree: levels of entries; 0: any */
	uint32_t max_entries; /* tree */
	uint32_t mode;        /* make: permission bits; 0: the usual ones */
	bool follow;          /* stat: of a link, what it leads to */
	bool parents;         /* make, rename: make missing directories */
	bool replace;         /* rename: a file that is there */
	bool recursive;       /* remove: a directory with what is in it; watch: those in it too */
	bool attributes;      /* stat, tree: extended attributes too; watch: entries of events */
};

/* How many bytes. */
struct files_amount {
	uint64_t bytes;
};

#define FILES_AMOUNT_SIZE 8 /* size of the payload in bytes */

enum files_event_type {
	FILES_EVENT_CREATED = 1,
	FILES_EVENT_CHANGED,    /* its content */
	FILES_EVENT_ATTRIBUTES, /* its permissions, owner, times or extended attributes */
	FILES_EVENT_REMOVED,
	FILES_EVENT_MOVED_FROM,
	FILES_EVENT_MOVED_TO,
	FILES_EVENT_OVERFLOW,  /* events were lost: the path is the watched directory's */
	FILES_EVENT_UNWATCHED, /* a directory in it cannot be watched */
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
	uint64_t mtime_ns;  /* since the epoch; 0 for an earlier time */
	struct text target; /* target of a symbolic link, otherwise empty */
	uint64_t left_out;  /* of a collapsed directory: its entries, which are not listed */
};

/* An entry with all that stat(2) and its extended attributes tell, as the workspace sees it. */
struct files_node {
	struct files_entry entry;
	uint32_t mode; /* permission bits */
	uint32_t uid, gid;
	uint64_t links;
	struct text owner, group; /* names; empty: there is none */
	/* pairs of name, without "user.", and value, each with its length of four bytes */
	struct text attributes;
	bool attributes_cut; /* it has more, or larger ones */
};

struct files_event {
	uint8_t type; /* enum files_event_type */
	bool directory;
	/* the same for both ends of a move that was seen whole, inotify(7); otherwise 0 */
	uint32_t cookie;
	struct text path; /* relative to the workspace's root */
	/* the entry that was there when the event was told, without attributes */
	bool has_node;
	struct files_node node; /* its path is the event's */
};

#define FILES_ATTRIBUTE_BYTES 16384UL /* of all attributes of an entry */

/* A file, directory or other entry before or after a change. */
struct files_state_of {
	uint8_t type; /* enum files_type; 0: there is none */
	uint64_t size;
	uint32_t mode; /* permission bits */
};

struct files_change {
	struct text path; /* relative to the workspace's root; "." is the root itself */
	struct files_state_of before, after; /* not both without a type */
};

/* Of all changes, told one by one or not. */
struct files_totals {
	uint64_t added, changed, deleted;
	uint64_t unread;    /* entries that could not be compared: their permissions forbid it */
	uint64_t unpatched; /* changes of files that have no place in the patch: they are no text */
};

struct files_match {
	struct text path; /* relative to the workspace's root */
	uint64_t line;    /* from 1 */
	/* the line without its newline, cut to LIMIT_SEARCH_LINE_BYTES around the match */
	struct text text;
	bool cut;
	bool context; /* the line does not match, but stands near one that does */
};

/*
 * The end of a call. The type of the request determines which fields are set; the others are 0 or
 * empty.
 */
struct files_end {
	uint32_t error;      /* enum tool_error */
	struct text message; /* a sentence for the model; empty: the error code's own */
	struct text path;    /* the resolved path, relative to the workspace's root; "." is the root
				itself */
	/* read, list, search: there was more; sweep: not all directories could be read */
	bool truncated;
	bool binary;  /* read */
	bool created; /* write: the file did not exist before */
	/* read: size of the file; write: bytes written; sweep: bytes that all files take */
	uint64_t size;
	/* read: lines in the content; sweep: microseconds of the processor's time that it took */
	uint64_t lines;
	uint64_t total_lines; /* read: lines in the file, 0 if not counted */
	/* list: number of entries; search: number of matches; sweep: number of files */
	uint64_t count;
	uint64_t files_searched; /* search; sweep: number of directories */
	/*
	 * search: files that are binary, too large or unreadable; sweep: directories that the
	 * workspace keeps from being measured
	 */
	uint64_t files_skipped;
	uint64_t files_utf16; /* search: of these, text in UTF-16 */
	struct text type;     /* read, binary: type by the first bytes, such as "image/png" */
	/* read of all bytes, write, edit: digest of the file's content; empty: not known */
	struct text version;
	uint64_t first_line; /* edit: the first line that was changed */
	/* list, search: files and directories that were left out because git ignores them */
	uint64_t ignored;
	/*
	 * write, edit, patch, sweep: what the kernel's quota of the workspace's id is, and how much
	 * of it is taken; disk_limit is 0 if none is enforced
	 */
	uint64_t disk_bytes, disk_limit;
};

struct files_sweep {
	bool prompt; /* otherwise it is made at idle priority */
};

#define FILES_SWEEP_SIZE 1 /* size of the payload in bytes */

struct files_ready {
	uint64_t disk_limit; /* as in struct files_end, as it was then */
};

#define FILES_READY_SIZE 8 /* size of the payload in bytes */

/* The change that a write or an edit has prepared and waits to make. */
struct files_held {
	/* version of the file that is there, or "absent"; empty: too large to say */
	struct text before;
	struct text after; /* version of its content afterwards; empty: nothing is to be changed */
	uint64_t size;     /* of the content that is there */
};

#define FILES_TROUBLE_LINES   10
#define FILES_TROUBLE_CLOSEST 1024 /* bytes: a model reads them */

/* Why an edit was not made, for programs; the sentence is in struct files_end. */
struct files_trouble {
	struct text file;    /* the path, for a patch; otherwise empty */
	uint32_t edit;       /* from 1: of a patch the hunk, or 0 if it is none */
	struct text kind;    /* a word */
	struct text closest; /* lines of the file, cut to FILES_TROUBLE_CLOSEST; may be empty */
	uint32_t n_lines;
	uint64_t lines[FILES_TROUBLE_LINES]; /* numbers of lines of the file */
};

WIRE_MESSAGE(files_read);
WIRE_MESSAGE(files_write);
WIRE_MESSAGE(files_edit);
WIRE_MESSAGE(files_patch);
WIRE_MESSAGE(files_list);
WIRE_MESSAGE(files_search);
WIRE_MESSAGE(files_diff);
WIRE_MESSAGE(files_ask);
WIRE_MESSAGE(files_amount);
WIRE_MESSAGE(files_event);
WIRE_MESSAGE(files_node);
/** Takes the next attribute of @left, which files_node_get() has checked. False: none is left. */
bool files_attribute_next(struct text *left, struct text *ret_name, struct text *ret_value);
WIRE_MESSAGE(files_change);
WIRE_MESSAGE(files_totals);
WIRE_MESSAGE(files_entry);
WIRE_MESSAGE(files_match);
WIRE_MESSAGE(files_trouble);
WIRE_MESSAGE(files_held);
WIRE_MESSAGE(files_patched);
WIRE_MESSAGE(files_step);
WIRE_MESSAGE(files_sweep);
WIRE_MESSAGE(files_ready);
WIRE_MESSAGE(files_end);

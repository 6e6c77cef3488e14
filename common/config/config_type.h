/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The types of configuration values, for cloisterd and the spawner. */

enum config_type {
	CONFIG_PATH,     /* char *: absolute */
	CONFIG_USER,     /* char *: the name of a user that exists */
	CONFIG_UPSTREAM, /* char *: http://HOST:PORT */
	CONFIG_NAME,     /* char *: of a disk class */
	CONFIG_BYTES,    /* uint64_t */
	CONFIG_TIME,     /* uint64_t, milliseconds */
	CONFIG_NUMBER,   /* uint64_t */
	CONFIG_PERCENT,
	CONFIG_MODE,   /* uint64_t, octal */
	CONFIG_CHOICE, /* uint64_t, index into choices */
	CONFIG_YES_NO, /* bool */
	CONFIG_PORTS,  /* uint64_t: CONFIG_PORTS_OF(); 0: none */
	/*
	 * Lists. The first eight take any number of values on a line, the others one value a line.
	 */
	CONFIG_USERS,    /* struct id_list */
	CONFIG_GROUPS,   /* struct id_list */
	CONFIG_FEATURES, /* struct string_list */
	CONFIG_CLASSES,  /* struct string_list: disk classes */
	CONFIG_ALLOW,    /* struct string_list: these four are read by cloister-egress */
	CONFIG_DENY,
	CONFIG_NETWORKS,
	CONFIG_RESOLVER,
	CONFIG_ROOTS,    /* struct root_list */
	CONFIG_PATHS,    /* struct string_list: absolute */
	CONFIG_PATTERNS, /* struct string_list: "default", "none" and PCRE2 patterns */
	CONFIG_SECRETS,  /* struct string_list: NAME host= header= file= */
	CONFIG_ENVIRONMENT,
	CONFIG_TYPES,
};

/* A range of ports in one number. */
#define CONFIG_PORTS_OF(low, high) ((uint64_t)(low) << 16 | (high))
#define CONFIG_PORTS_LOW(ports)    ((ports) >> 16)
#define CONFIG_PORTS_HIGH(ports)   ((ports)&UINT16_MAX)

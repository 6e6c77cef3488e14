/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The tenants' sections, [tenant NAME]. cloisterd, the spawner and cloister-egress each read the
 * files by themselves, and must agree on whose a section is. cloisterd checks every line; the
 * other two take the keys that they enforce, into an array of items that is kept here.
 */

#include "common/config/config_reader.h"

#include <stddef.h>

/* The caller sets max, item_size and defaults, and frees items. */
struct tenant_sections {
	void *items;          /* each begins with its name: char[LIMIT_CONFIG_NAME_BYTES + 1] */
	size_t count, max;    /* number of items */
	size_t item_size;     /* bytes */
	const void *defaults; /* an item, with which each new one begins but for its name */
	void *current;        /* the item of the current section; NULL: it is no tenant's */
};

/**
 * Returns the name in the section header @section, "tenant NAME", borrowed from it; NULL if it is
 * another section's, or NULL. The name is not checked.
 */
const char *tenant_of_section(const char *section);

/**
 * Adds an item. Returns it, valid until the next one is added; NULL if there are as many as max,
 * @name is too long, or memory is out.
 */
void *tenant_sections_add(struct tenant_sections *tenants, const char *name);

/**
 * A section [@section] begins (struct config_handler): makes the item of its tenant the current
 * one, and adds the item if no section has named the tenant before. Complains to @reader if it
 * cannot be added.
 */
void tenant_sections_begin(
	struct tenant_sections *tenants, struct config_reader *reader, const char *section);

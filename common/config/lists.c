// SPDX-License-Identifier: Apache-2.0
/* Used by cloisterd and the spawner. */
#include "common/config/lists.h"

#include "common/cleanup.h"

void string_list_done(struct string_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->strings[i]);
	free(list->strings);
	*list = (struct string_list){0};
}

void root_list_done(struct root_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		close_fd(&list->roots[i].fd);
	free(list->roots);
	*list = (struct root_list){0};
}

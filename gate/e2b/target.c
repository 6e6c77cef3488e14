// SPDX-License-Identifier: Apache-2.0
/* In cloister-gate, which trusts no client. */

#include "gate/e2b/target.h"

bool target_port(struct text text, uint16_t *ret)
{
	uint32_t port = 0;

	if (text.len == 0 || text.len > 5 || text.data[0] == '0')
		return false;
	for (size_t i = 0; i < text.len; i++) {
		if (text.data[i] < '0' || text.data[i] > '9')
			return false;
		port = port * 10 + (uint32_t)(text.data[i] - '0');
	}
	*ret = (uint16_t)port;
	return port <= UINT16_MAX;
}

bool target_of_host(struct text host, struct text domain, struct target *ret)
{
	struct text rest = host, port = text_take(&rest, '-'), id = text_take(&rest, '.');
	struct target target = {.id = id};

	if (domain.len == 0 || !text_equal(rest, domain) || !sandbox_id_valid(id) ||
		!target_port(port, &target.port))
		return false;
	*ret = target;
	return true;
}

bool target_of_headers(struct text id, struct text port, uint16_t otherwise, struct target *ret)
{
	struct target target = {id, otherwise};

	if (!sandbox_id_valid(id) || (port.len > 0 && !target_port(port, &target.port)))
		return false;
	*ret = target;
	return true;
}

void path_clean(const char *path, char *ret_path)
{
	struct text rest = text_from(path);
	size_t len = 0;

	while (rest.len > 0) {
		struct text name = text_take(&rest, '/');

		if (name.len == 0 || text_equal(name, TEXT_LITERAL(".")))
			continue;
		if (text_equal(name, TEXT_LITERAL(".."))) {
			while (len > 0 && ret_path[--len] != '/')
				;
			continue;
		}
		ret_path[len++] = '/';
		memcpy(ret_path + len, name.data, name.len);
		len += name.len;
	}
	if (len == 0)
		ret_path[len++] = '/';
	ret_path[len] = '\0';
}

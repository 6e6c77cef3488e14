// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd and in cloister-egress. The kernel is trusted. */
#include "common/sock_diag.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stddef.h>
#include <string.h>

#define CGROUP_ID 21 /* INET_DIAG_CGROUP_ID, Linux 5.8 */

uint64_t sock_diag_cgroup(const struct nlmsghdr *header)
{
	const struct inet_diag_msg *message = NLMSG_DATA(header);
	const struct rtattr *attribute = (const void *)(message + 1);
	size_t left = header->nlmsg_len - NLMSG_LENGTH(sizeof(*message));
	uint64_t cgroup = 0;

	for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left))
		if (attribute->rta_type == CGROUP_ID && RTA_PAYLOAD(attribute) == sizeof(cgroup))
			memcpy(&cgroup, RTA_DATA(attribute), sizeof(cgroup));
	return cgroup;
}

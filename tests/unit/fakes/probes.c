// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fakes/probes.h"

#include "supervisor/host/calls_probe.h"

bool fake_calls_present;
struct namespaces_probe fake_namespaces;

bool calls_probe(void)
{
	return fake_calls_present;
}

const char *calls_remedy(void)
{
	return "allow them";
}

int namespaces_probe(struct namespaces_probe *ret)
{
	*ret = fake_namespaces;
	return 0;
}

const char *namespaces_remedy(const char *sysctl, int error)
{
	(void)sysctl;
	return error ? "allow namespaces" : "nothing to do";
}

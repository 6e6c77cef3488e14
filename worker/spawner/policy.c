// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner. It reads the configuration files through common/config, as cloisterd does.
 * Its handler takes the keys that the spawner enforces itself and ignores the others, which
 * cloisterd has checked. It trusts files that only root could have written.
 */
#include "worker/spawner/policy.h"

#include "common/cleanup.h"
#include "common/config/config_files.h"
#include "common/config/config_number.h"
#include "common/config/config_reader.h"
#include "common/config/disk_classes.h"
#include "common/config/lists.h"
#include "common/config/tenant_sections.h"
#include "common/config_defaults.h"
#include "common/limits.h"
#include "common/selftest_tenants.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

struct policy_tenant {
	char name[LIMIT_CONFIG_NAME_BYTES + 1];
	bool managed, network_roots, keeps_homes, egress, root_inside, allows_filters;
	struct root_list roots;
	uint64_t memory_bytes, processes, cpu_weight, cpu_percent, io_weight;
	uint64_t tmp_bytes, file_size_bytes, open_files, watches, home_bytes, existing,
		template_bytes;
	char *readonly;                               /* paths, one a line; NULL: none */
	const char *roots_file, *readonly_file;       /* files that set them last */
	char disk_class[LIMIT_CONFIG_NAME_BYTES + 1]; /* "": the first one */
};

struct policy {
	struct config_files files;
	struct policy_tenant *tenants;
	size_t n_tenants;
	struct disk_classes classes; /* as at the start: they divide the ids */
	bool has_classes;            /* they have been read */
	uint64_t template_bytes;     /* in memory, of all tenants */
	bool system; /* system mode: the owner of a directory is its workspace's id */
};

static const struct {
	const char *name;
	enum config_type type;
	size_t offset;
} numbers[] = {
	{"workspace_memory", CONFIG_BYTES, offsetof(struct policy_tenant, memory_bytes)},
	{"workspace_processes", CONFIG_NUMBER, offsetof(struct policy_tenant, processes)},
	{"cpu_weight", CONFIG_NUMBER, offsetof(struct policy_tenant, cpu_weight)},
	{"cpu_max", CONFIG_PERCENT, offsetof(struct policy_tenant, cpu_percent)},
	{"io_weight", CONFIG_NUMBER, offsetof(struct policy_tenant, io_weight)},
	{"tmp_size", CONFIG_BYTES, offsetof(struct policy_tenant, tmp_bytes)},
	{"file_size", CONFIG_BYTES, offsetof(struct policy_tenant, file_size_bytes)},
	{"open_files", CONFIG_NUMBER, offsetof(struct policy_tenant, open_files)},
	{"watches", CONFIG_NUMBER, offsetof(struct policy_tenant, watches)},
	{"home_size", CONFIG_BYTES, offsetof(struct policy_tenant, home_bytes)},
	{"workspaces_existing", CONFIG_NUMBER, offsetof(struct policy_tenant, existing)},
	{"template_memory", CONFIG_BYTES, offsetof(struct policy_tenant, template_bytes)},
};

/* What is read. */
struct draft {
	struct tenant_sections sections;
	struct disk_classes classes;
	const char *classes_file; /* that set them last */
	uint64_t template_bytes;
	bool in_host; /* in the section [cloister] */
};

static void release_tenants(struct policy_tenant *tenants, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		root_list_done(&tenants[i].roots);
		free(tenants[i].readonly);
	}
	free(tenants);
}

static void release_draft(struct draft *draft)
{
	release_tenants(draft->sections.items, draft->sections.count);
}

static const struct policy_tenant defaults = {
	.memory_bytes = DEFAULT_WORKSPACE_MEMORY_BYTES,
	.processes = DEFAULT_WORKSPACE_PROCESSES,
	.cpu_weight = DEFAULT_TENANT_WEIGHT,
	.cpu_percent = DEFAULT_CPU_MAX_PERCENT,
	.io_weight = DEFAULT_TENANT_WEIGHT,
	.tmp_bytes = DEFAULT_TMP_BYTES,
	.file_size_bytes = DEFAULT_FILE_SIZE_BYTES,
	.open_files = DEFAULT_OPEN_FILES,
	.watches = DEFAULT_WATCHES,
	.home_bytes = DEFAULT_HOME_BYTES,
	.existing = DEFAULT_WORKSPACES_EXISTING,
	.template_bytes = DEFAULT_TEMPLATE_MEMORY_BYTES,
};
static_assert(offsetof(struct policy_tenant, name) == 0, "as tenant_sections.h has it");

static void begin_spawner_config_file(struct config_reader *reader)
{
	struct draft *draft = reader->context;

	draft->sections.current = NULL;
	draft->in_host = false;
}

static void begin_spawner_config_section(struct config_reader *reader, const char *name)
{
	struct draft *draft = reader->context;

	draft->in_host = name && strcmp(name, "cloister") == 0;
	tenant_sections_begin(&draft->sections, reader, name);
}

static void take_host_setting(
	struct config_reader *reader, struct draft *draft, const char *name, const char *value)
{
	const char *why;

	if (strcmp(name, "template_memory") == 0 &&
		config_number(CONFIG_BYTES, value, &draft->template_bytes) < 0)
		config_wrong(reader, "template_memory: not a number that fits");
	if (strcmp(name, "disk_classes") != 0)
		return;
	if (draft->classes_file != reader->file)
		draft->classes.count = 0;
	draft->classes_file = reader->file;
	why = disk_classes_add_line(&draft->classes, value);
	if (why)
		config_wrong(reader, "disk_classes: %s", why);
}

/* Opens the path without following links: cloisterd has refused a root that leads through one. */
static void add_root(struct config_reader *reader, struct root_list *list, const char *value)
{
	struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
	_cleanup_close_ int fd = (int)syscall(SYS_openat2, AT_FDCWD, value, &how, sizeof(how));
	struct tenant_root *grown;
	struct directory_known known;

	if (value[0] != '/' || fd < 0 || directory_known(fd, &known) < 0) {
		config_wrong(reader, "roots: \"%s\": %s", value, strerror(errno));
		return;
	}
	grown = list->count < LIMIT_CONFIG_LIST
			? reallocarray(list->roots, list->count + 1, sizeof(*grown))
			: NULL;
	if (!grown) {
		config_wrong(reader, "roots: too many values");
		return;
	}
	list->roots = grown;
	grown[list->count++] =
		(struct tenant_root){.fd = TAKE_FD(fd), .dev = known.id.dev, .ino = known.id.ino};
}

static void set_policy_number(
	struct config_reader *reader, struct policy_tenant *tenant, size_t i, const char *value)
{
	uint64_t *field = (uint64_t *)((char *)tenant + numbers[i].offset);

	if (config_number(numbers[i].type, value, field) < 0)
		config_wrong(reader, "%s: not a number that fits", numbers[i].name);
}

static void add_readonly_path(
	struct config_reader *reader, struct policy_tenant *tenant, const char *value)
{
	bool more = tenant->readonly && tenant->readonly_file == reader->file;
	char *joined = NULL;

	if (asprintf(&joined, "%s%s%s", more ? tenant->readonly : "", more ? "\n" : "", value) < 0)
		joined = NULL;
	if (!joined || strlen(joined) >= LIMIT_READONLY_BYTES) {
		config_wrong(reader, "readonly_paths: too many values");
		free(joined);
		return;
	}
	free(tenant->readonly);
	tenant->readonly = joined;
	tenant->readonly_file = reader->file;
}

/* A key in a later file replaces the values from earlier files. */
static void take_spawner_config_setting(
	struct config_reader *reader, const char *name, const char *value)
{
	struct draft *draft = reader->context;
	struct policy_tenant *tenant = draft->sections.current;

	if (draft->in_host)
		take_host_setting(reader, draft, name, value);
	if (!tenant)
		return;
	/* One that is longer is no class's. */
	if (strcmp(name, "disk_class") == 0)
		snprintf(tenant->disk_class, sizeof(tenant->disk_class), "%s", value);
	if (strcmp(name, "managed") == 0)
		tenant->managed = strcmp(value, "yes") == 0;
	if (strcmp(name, "network_roots") == 0)
		tenant->network_roots = strcmp(value, "yes") == 0;
	if (strcmp(name, "home") == 0)
		tenant->keeps_homes = strcmp(value, "kept") == 0;
	if (strcmp(name, "command_filters") == 0)
		tenant->allows_filters = strcmp(value, "allow") == 0;
	if (strcmp(name, "root_inside") == 0)
		tenant->root_inside = strcmp(value, "yes") == 0;
	if (strcmp(name, "network") == 0)
		tenant->egress = strcmp(value, "egress") == 0;
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		if (strcmp(name, numbers[i].name) == 0)
			set_policy_number(reader, tenant, i, value);
	if (strcmp(name, "readonly_paths") == 0)
		add_readonly_path(reader, tenant, value);
	if (strcmp(name, "roots") != 0)
		return;
	if (tenant->roots_file != reader->file)
		root_list_done(&tenant->roots);
	tenant->roots_file = reader->file;
	add_root(reader, &tenant->roots, value);
}

int policy_open(const char *path, struct policy **ret)
{
	struct policy *policy = calloc(1, sizeof(*policy));
	int r;

	if (!policy)
		return -ENOMEM;
	r = config_files_open(path, &policy->files);
	if (r < 0) {
		free(policy);
		return r;
	}
	*ret = policy;
	return 0;
}

static void log_policy_mistake(void *context, const char *file, unsigned line, const char *message)
{
	(void)context;
	fprintf(stderr, "cloister-spawner: %s:%u: %s\n", file, line, message);
}

/* Adds a tenant of the self-test, which no file names. It has the defaults of a tenant. */
static int add_selftest(struct tenant_sections *draft, const char *name)
{
	struct policy_tenant *tenant = tenant_sections_add(draft, name);

	if (!tenant)
		return -ENOMEM;
	tenant->managed = true;
	return 0;
}

/* They have a network and root_inside only where another tenant has. */
static void complete_selftest(const struct tenant_sections *draft)
{
	struct policy_tenant *tenants = draft->items;
	bool has_network = false, has_root_inside = false;

	for (size_t i = 0; i < draft->count; i++) {
		has_network |= tenants[i].egress;
		has_root_inside |= tenants[i].root_inside;
	}
	for (size_t i = 0; i < draft->count; i++)
		if (strcmp(tenants[i].name, SELFTEST_EGRESS_TENANT) == 0)
			tenants[i].egress = has_network;
		else if (strcmp(tenants[i].name, SELFTEST_TENANT) == 0)
			tenants[i].root_inside = has_root_inside;
}

/*
 * Returns the id that files of the host's root have here; in a user namespace without root that is
 * the overflow id.
 */
static uid_t root_as_seen(void)
{
	struct stat stat_buf;

	return stat("/etc", &stat_buf) < 0 ? (uid_t)-1 : stat_buf.st_uid;
}

int policy_read(struct policy *policy, bool only_roots)
{
	static const struct config_complaints complaints = {log_policy_mistake, NULL, NULL};
	static const struct config_handler handler = {begin_spawner_config_file,
		begin_spawner_config_section, take_spawner_config_setting};
	_cleanup_(config_file_names_done) struct config_file_names names = {0};
	_cleanup_(release_draft) struct draft read = {
		.sections = {
			.item_size = sizeof(struct policy_tenant),
			.max = LIMIT_CONFIG_TENANTS + 2, /* the self-test's tenants */
			.defaults = &defaults,
		}};
	struct tenant_sections *draft = &read.sections;
	struct config_reader reader = {
		.complaints = &complaints,
		.handler = &handler,
		.context = &read,
		.root = root_as_seen(),
	};
	int r = add_selftest(draft, SELFTEST_TENANT);

	if (r == 0)
		r = add_selftest(draft, SELFTEST_EGRESS_TENANT);
	if (r == 0)
		r = config_files_read(&policy->files, &reader, &names);
	if (r == 0 && only_roots && reader.not_roots) {
		fprintf(stderr, "cloister-spawner: the configuration is not root's alone\n");
		r = -EPERM;
	}
	if (r == 0 && reader.mistakes > 0)
		r = -EINVAL;
	if (r < 0)
		return r;
	complete_selftest(draft);
	release_tenants(policy->tenants, policy->n_tenants);
	policy->system = only_roots;
	policy->template_bytes = read.template_bytes;
	policy->tenants = TAKE_PTR(draft->items);
	policy->n_tenants = draft->count;
	draft->count = 0;
	if (!policy->has_classes)
		policy->classes = read.classes;
	policy->has_classes = true;
	return 0;
}

/* Whether @place lies below a root of @tenant; with @on, only a root on the same file system. */
static bool is_below_root(
	const struct policy_tenant *tenant, const struct place *place, const dev_t *on)
{
	for (size_t i = 0; i < tenant->roots.count; i++) {
		const struct tenant_root *root = &tenant->roots.roots[i];

		if ((!on || *on == root->dev) &&
			place_is_in(place, (struct directory_id){root->dev, root->ino}))
			return true;
	}
	return false;
}

static bool may_have(const struct policy_tenant *tenant, const struct place *place,
	const struct policy_place *managed)
{
	if (managed)
		return tenant->managed && strcmp(tenant->name, managed->tenant) == 0;
	return is_below_root(tenant, place, NULL);
}

/*
 * The owner of @place becomes the id of a workspace, so the file system must be trusted to report
 * it. It is trusted if it is the one of the tenant's root, or of the state directory, and either is
 * local or network_roots allows it. Returns NULL if it is trusted, otherwise the reason.
 */
static const char *disbelieves_owner(const struct policy_tenant *tenant, const struct place *place,
	const struct policy_place *managed)
{
	struct stat top;

	if (managed) {
		if (fstat(managed->directory, &top) < 0 || top.st_dev != place->stat.st_dev)
			return "the managed workspace is on another file system than the state "
			       "directory";
	} else if (!is_below_root(tenant, place, &place->stat.st_dev)) {
		return "the directory is on another file system than the tenant's root "
		       "above it, which does not answer for its owner: make the place "
		       "where that is mounted a root of its own";
	}
	/* Here the file system is that of the root or of the state directory. */
	return place->is_local || tenant->network_roots
		       ? NULL
		       : "it is on a network or FUSE file system, whose server would choose the "
			 "workspace's id: network_roots = yes trusts it with that";
}

static bool may_use(const struct policy_tenant *tenant, const struct workspace_limits *limits)
{
	/* 0 means unlimited */
	bool cpu = tenant->cpu_percent == 0 ||
		   (limits->cpu_percent > 0 && limits->cpu_percent <= tenant->cpu_percent);

	return cpu && limits->memory_bytes <= tenant->memory_bytes &&
	       limits->processes <= tenant->processes && limits->cpu_weight <= tenant->cpu_weight &&
	       limits->io_weight <= tenant->io_weight && limits->tmp_bytes <= tenant->tmp_bytes &&
	       limits->file_size_bytes <= tenant->file_size_bytes &&
	       limits->open_files <= tenant->open_files && limits->watches <= tenant->watches;
}

int policy_check(const struct policy *policy, const struct place *place,
	const struct policy_place *managed, const struct spawner_open *request,
	const char **ret_reason)
{
	if (!policy)
		return 0;
	*ret_reason = "no tenant of the configuration has this directory";
	for (size_t i = 0; i < policy->n_tenants; i++) {
		const struct policy_tenant *tenant = &policy->tenants[i];
		const char *reason;

		if (request->tenant[0] && strcmp(tenant->name, request->tenant) != 0)
			continue;
		if (!may_have(tenant, place, managed))
			continue;
		reason = policy->system ? disbelieves_owner(tenant, place, managed) : NULL;
		if (!reason && may_use(tenant, &request->limits))
			return 0;
		*ret_reason = reason ? reason
				     : "its tenant's configuration allows no limits as high as "
				       "these";
	}
	return -SPAWNER_REFUSAL;
}

static const struct policy_tenant *find_tenant(const struct policy *policy, const char *name)
{
	for (size_t i = 0; policy && i < policy->n_tenants; i++)
		if (strcmp(policy->tenants[i].name, name) == 0)
			return &policy->tenants[i];
	return NULL;
}

const char *policy_readonly_paths(const struct policy *policy, const char *name)
{
	const struct policy_tenant *tenant = find_tenant(policy, name);

	return tenant && tenant->readonly ? tenant->readonly : "";
}

bool policy_managed(const struct policy *policy, const char *name)
{
	const struct policy_tenant *tenant = find_tenant(policy, name);

	return !policy || (tenant && tenant->managed);
}

bool policy_network(const struct policy *policy, const char *name)
{
	const struct policy_tenant *tenant = find_tenant(policy, name);

	return tenant && tenant->egress;
}

bool policy_allows_filters(const struct policy *policy, const char *name)
{
	const struct policy_tenant *tenant = find_tenant(policy, name);

	return tenant && tenant->allows_filters;
}

bool policy_root_inside(const struct policy *policy, const char *name)
{
	const struct policy_tenant *tenant = find_tenant(policy, name);

	return tenant && tenant->root_inside;
}

struct policy_home policy_home(const struct policy *policy, const char *name)
{
	const struct policy_tenant *tenant = find_tenant(policy, name);

	return tenant ? (struct policy_home){tenant->keeps_homes, tenant->home_bytes,
				tenant->existing}
		      : (struct policy_home){0};
}

/* Where there is enough for what each may have, they share nothing: as if there were but one. */
static size_t count_template_tenants(const struct policy *policy)
{
	uint64_t left = policy->template_bytes;
	size_t n = 0;
	bool enough = true;

	for (size_t i = 0; i < policy->n_tenants; i++) {
		const struct policy_tenant *tenant = &policy->tenants[i];

		/* Those of the self-test, whose names begin with a dot, have little and for a
		 * moment. */
		if (!tenant->managed || tenant->template_bytes == 0 || tenant->name[0] == '.')
			continue;
		enough = enough && tenant->template_bytes <= left;
		left -= enough ? tenant->template_bytes : 0;
		n++;
	}
	return enough ? 1 : n;
}

struct policy_templates policy_templates(const struct policy *policy, const char *name)
{
	const struct policy_tenant *tenant = find_tenant(policy, name);

	return tenant ? (struct policy_templates){policy->template_bytes, tenant->template_bytes,
				count_template_tenants(policy)}
		      : (struct policy_templates){0};
}

struct id_span policy_ids(const struct policy *policy, const char *name, uint32_t count)
{
	const struct policy_tenant *tenant = find_tenant(policy, name);
	const struct disk_class *class;

	if (!tenant || policy->classes.count == 0)
		return disk_classes_managed(count);
	/* cloisterd refuses a class that does not exist; here it has no id. */
	class = disk_classes_find(&policy->classes, tenant->disk_class);
	return class ? disk_classes_span(&policy->classes, class, count) : (struct id_span){0};
}

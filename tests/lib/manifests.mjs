// SPDX-License-Identifier: Apache-2.0
// usage: node manifests.mjs FILE.yaml...
//
// Prints the content of the files as JSON. A Kubernetes object must match the schemas of the API and have no other
// fields: depending on its version, a server ignores those silently or refuses the object.
import {readFileSync} from "node:fs";
import {createRequire} from "node:module";
import {parseAllDocuments} from "yaml";

const require = createRequire(import.meta.url);
const MODELS = "./node_modules/@kubernetes/client-node/dist/gen/models/";
const PLACES = {v1: "v1", "apps/v1": "apps/v1", "networking.k8s.io/v1": "networking.k8s.io/v1",
	"policy/v1": "policy/v1", "scheduling.k8s.io/v1": "scheduling.k8s.io/v1"};

/*
 * kubernetes-sigs/agent-sandbox, extensions/api/v1beta1, which has no package of schemas: the fields of its types. A
 * type is one of the API's, a list of values, or the fields of an object.
 */
const CUSTOM = {
	"extensions.agents.x-k8s.io/v1beta1": {
		SandboxTemplate: {
			podTemplate: {metadata: {labels: "{ [key: string]: string; }", annotations: "{ [key: string]: string; }"}, spec: "V1PodSpec"},
			volumeClaimTemplates: "Array<V1PersistentVolumeClaim>", service: "boolean",
			networkPolicy: {ingress: "Array<V1NetworkPolicyIngressRule>", egress: "Array<V1NetworkPolicyEgressRule>"},
			networkPolicyManagement: ["Managed", "Unmanaged"], envVarsInjectionPolicy: ["Allowed", "Overrides", "Disallowed"],
			volumeClaimTemplatesPolicy: ["Allowed", "Overrides", "Disallowed"],
		},
		SandboxWarmPool: {
			replicas: "number", sandboxTemplateRef: {name: "string"}, updateStrategy: {type: ["Recreate", "OnReplenish"]},
		},
	},
};

function complain(what) {
	console.error(what);
	process.exit(1);
}

async function model(type) {
	return (await import(`${MODELS}${type}.js`))[type];
}

const plain = {
	string: (value) => typeof value === "string",
	number: (value) => typeof value === "number",
	boolean: (value) => typeof value === "boolean",
	IntOrString: (value) => Number.isInteger(value) || typeof value === "string",
	Date: (value) => typeof value === "string",
	any: () => true,
};

// Checks that each field has a name and type of the API's description.
async function check(value, type, path) {
	const list = /^(?:Array|Set)<(.*)>$/.exec(type);
	const map = /^\{ \[key: string\]: (.*); \}$/.exec(type);

	if (list) {
		if (!Array.isArray(value))
			complain(`${path} is no list`);
		for (const [i, item] of value.entries())
			await check(item, list[1], `${path}[${i}]`);
	} else if (map) {
		for (const [key, item] of Object.entries(value))
			await check(item, map[1], `${path}.${key}`);
	} else if (type in plain) {
		if (!plain[type](value))
			complain(`${path} is no ${type}`);
	} else {
		const fields = (await model(type)).getAttributeTypeMap();
		for (const [key, item] of Object.entries(value)) {
			const field = fields.find(({baseName}) => baseName === key);
			if (!field)
				complain(`${path}: ${type} has no field "${key}"`);
			await check(item, field.type, `${path}.${key}`);
		}
	}
}

// Checks an object of CUSTOM; the pod's specification is the API's.
async function checkCustom(value, type, path) {
	if (typeof type === "string") {
		await check(value, type, path);
		if (type === "V1PodSpec") {
			const {Pod} = require("kubernetes-models/v1/Pod");
			new Pod({spec: value}).validate();
		}
	} else if (Array.isArray(type)) {
		if (!type.includes(value))
			complain(`${path} is none of ${type.join(", ")}`);
	} else {
		for (const [key, item] of Object.entries(value)) {
			if (!(key in type))
				complain(`${path} has no field "${key}"`);
			await checkCustom(item, type[key], `${path}.${key}`);
		}
	}
}

async function kubernetes(text, file) {
	const objects = [];
	for (const document of parseAllDocuments(text)) {
		if (document.errors.length > 0)
			complain(`${file}: ${document.errors[0]}`);
		const object = document.toJS();
		const custom = CUSTOM[object.apiVersion]?.[object.kind];
		if (custom) {
			try {
				const object_ = {metadata: "V1ObjectMeta", spec: custom, apiVersion: "string", kind: "string"};
				await checkCustom(object, object_, `${file}: ${object.kind}`);
			} catch (error) {
				complain(`${file}: ${error.message}`);
			}
			objects.push(object);
			continue;
		}
		const place = PLACES[object.apiVersion];
		if (!place)
			complain(`${file}: no schema for ${object.apiVersion}`);
		const kind = require(`kubernetes-models/${place}/${object.kind}`)[object.kind];
		try {
			new kind(object).validate();
		} catch (error) {
			complain(`${file}: ${error.message}`);
		}
		await check(object, `V1${object.kind}`, `${file}: ${object.kind}`);
		objects.push(object);
	}
	return objects;
}

const found = {};
for (const file of process.argv.slice(2)) {
	const text = readFileSync(file, "utf8");
	found[file.split("/").pop()] = await kubernetes(text, file);
}
console.log(JSON.stringify(found));

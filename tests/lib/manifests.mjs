// SPDX-License-Identifier: Apache-2.0
// usage: node manifests.mjs FILE.yaml... | FILE.hcl
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

async function kubernetes(text, file) {
	const objects = [];
	for (const document of parseAllDocuments(text)) {
		if (document.errors.length > 0)
			complain(`${file}: ${document.errors[0]}`);
		const object = document.toJS();
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

function nomad(text, file) {
	const [job, error] = require("hcl2-parser").parseToObject(text);
	if (error || !job)
		complain(`${file} is not HCL`);
	return job;
}

const found = {};
for (const file of process.argv.slice(2)) {
	const text = readFileSync(file, "utf8");
	found[file.split("/").pop()] = file.endsWith(".hcl") ? nomad(text, file) : await kubernetes(text, file);
}
console.log(JSON.stringify(found));

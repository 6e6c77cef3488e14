/* links: cloister-gate-core */
/* SPDX-License-Identifier: Apache-2.0 */

/* Tokens that are taken, and those that attackers make. Keys are made once for all tests. */

#include "gate/jwt.h"
#include "tests/lib/unit.h"

#include <gnutls/abstract.h>
#include <gnutls/crypto.h>
#include <nettle/base64.h>
#include <nettle/hmac.h>

#define NOW   1700000000
#define SPACE 16384

enum which { RSA, EC, ED, N_KEYS };

static gnutls_privkey_t private_keys[N_KEYS], strange;
static char jwks[SPACE], rsa_n[1024], ec_x[64], ec_y[64], ed_x[64];
static struct jwt_keys *keys;

static const struct jwt_rules rules = {"https://as.example", "https://gate.example/mcp", "tenant"};

/* Writes base64url without padding behind the text in @to. */
static void append_base64url(char *to, const void *data, size_t len)
{
	struct base64_encode_ctx context;
	size_t at = strlen(to), n;

	base64url_encode_init(&context);
	n = base64_encode_update(&context, to + at, len, data);
	n += base64_encode_final(&context, to + at + n);
	while (n > 0 && to[at + n - 1] == '=')
		n--;
	to[at + n] = '\0';
}

static gnutls_privkey_t new_private_key(gnutls_pk_algorithm_t algorithm, unsigned bits)
{
	gnutls_privkey_t key;

	assert_true(gnutls_privkey_init(&key) == 0);
	assert_true(gnutls_privkey_generate(key, algorithm, bits, 0) == 0);
	return key;
}

/* Writes @number, which is freed, with zeros before it where it is shorter than @least bytes. */
static void append_number(char *to, gnutls_datum_t *number, size_t least)
{
	uint8_t padded[512] = {0};
	size_t zeros = number->size < least ? least - number->size : 0;

	assert_true(zeros + number->size <= sizeof(padded));
	memcpy(padded + zeros, number->data, number->size);
	append_base64url(to, padded, zeros + number->size);
	gnutls_free(number->data);
}

static void export_numbers(void)
{
	gnutls_datum_t a, b;
	gnutls_ecc_curve_t curve;

	assert_true(gnutls_privkey_export_rsa_raw2(private_keys[RSA], &a, &b, NULL, NULL, NULL,
			    NULL, NULL, NULL, GNUTLS_EXPORT_FLAG_NO_LZ) == 0);
	append_number(rsa_n, &a, 0);
	gnutls_free(b.data);
	assert_true(gnutls_privkey_export_ecc_raw2(
			    private_keys[EC], &curve, &a, &b, NULL, GNUTLS_EXPORT_FLAG_NO_LZ) == 0);
	append_number(ec_x, &a, 32);
	append_number(ec_y, &b, 32);
	assert_true(
		gnutls_privkey_export_ecc_raw2(private_keys[ED], &curve, &a, NULL, NULL, 0) == 0);
	append_number(ed_x, &a, 32);
}

static int make_keys(void **state)
{
	const char *fault;

	(void)state;
	private_keys[RSA] = new_private_key(GNUTLS_PK_RSA, 2048);
	private_keys[EC] =
		new_private_key(GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1));
	private_keys[ED] = new_private_key(GNUTLS_PK_EDDSA_ED25519, 0);
	strange = new_private_key(GNUTLS_PK_EDDSA_ED25519, 0);
	export_numbers();
	snprintf(jwks, sizeof(jwks),
		"{\"keys\":["
		"{\"kty\":\"RSA\",\"kid\":\"r\",\"use\":\"sig\",\"n\":\"%s\",\"e\":\"AQAB\"},"
		"{\"kty\":\"EC\",\"kid\":\"e\",\"crv\":\"P-256\",\"x\":\"%s\",\"y\":\"%s\"},"
		"{\"kty\":\"OKP\",\"kid\":\"d\",\"crv\":\"Ed25519\",\"alg\":\"EdDSA\",\"x\":\"%s\"}"
		","
		"{\"kty\":\"EC\",\"kid\":\"other\",\"crv\":\"P-521\",\"x\":\"AA\",\"y\":\"AA\"},"
		"{\"kty\":\"RSA\",\"kid\":\"enc\",\"use\":\"enc\",\"n\":\"%s\",\"e\":\"AQAB\"}]}",
		rsa_n, ec_x, ec_y, ed_x, rsa_n);
	keys = jwt_keys_read(text_from(jwks), &fault);
	return keys ? 0 : -1;
}

static int free_keys(void **state)
{
	(void)state;
	jwt_keys_free(keys);
	for (size_t i = 0; i < N_KEYS; i++)
		gnutls_privkey_deinit(private_keys[i]);
	gnutls_privkey_deinit(strange);
	return 0;
}

GROUP_FIXTURE(make_keys, free_keys)

/* Signs what @token has so far. */
static void append_signature(char *token, gnutls_privkey_t key, gnutls_sign_algorithm_t sign)
{
	gnutls_datum_t text = {(unsigned char *)token, (unsigned)strlen(token)}, signature, r, s;
	uint8_t both[64] = {0};

	assert_true(gnutls_privkey_sign_data2(key, sign, 0, &text, &signature) == 0);
	strcat(token, ".");
	if (sign != GNUTLS_SIGN_ECDSA_SHA256) {
		append_base64url(token, signature.data, signature.size);
	} else {
		assert_true(gnutls_decode_rs_value(&signature, &r, &s) == 0);
		/* DER has a zero before a number whose first bit is set, and none elsewhere. */
		memcpy(both + 32 - (r.size > 32 ? 32 : r.size),
			r.data + (r.size > 32 ? r.size - 32 : 0), r.size > 32 ? 32 : r.size);
		memcpy(both + 64 - (s.size > 32 ? 32 : s.size),
			s.data + (s.size > 32 ? s.size - 32 : 0), s.size > 32 ? 32 : s.size);
		append_base64url(token, both, sizeof(both));
		gnutls_free(r.data);
		gnutls_free(s.data);
	}
	gnutls_free(signature.data);
}

static const struct {
	const char *alg;
	enum which key;
	gnutls_sign_algorithm_t sign;
} signers[] = {
	{"RS256", RSA, GNUTLS_SIGN_RSA_SHA256},
	{"PS256", RSA, GNUTLS_SIGN_RSA_PSS_RSAE_SHA256},
	{"ES256", EC, GNUTLS_SIGN_ECDSA_SHA256},
	{"EdDSA", ED, GNUTLS_SIGN_EDDSA_ED25519},
};

static void make_token(char *token, const char *head, const char *claims, size_t signer)
{
	token[0] = '\0';
	append_base64url(token, head, strlen(head));
	strcat(token, ".");
	append_base64url(token, claims, strlen(claims));
	append_signature(token, private_keys[signers[signer].key], signers[signer].sign);
}

#define CLAIMS                                                                  \
	"{\"iss\":\"https://as.example\",\"aud\":\"https://gate.example/mcp\"," \
	"\"sub\":\"me\",\"tenant\":\"blue\",\"exp\":1700000100}"

static const char *check(const char *token, struct jwt_bearer *ret)
{
	return jwt_check(keys, &rules, text_from(token), NOW, ret);
}

TEST(test_tokens_that_are_taken)
{
	static const char *const more[] = {"", ",\"typ\":\"at+jwt\"",
		",\"typ\":\"jwt\",\"jku\":\"http://10.0.0.1/\",\"x\":[1]"};
	struct jwt_bearer bearer, first;
	char token[SPACE], head[256];

	for (size_t i = 0; i < ARRAY_SIZE(signers); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(more); j++) {
			snprintf(head, sizeof(head), "{\"alg\":\"%s\"%s}", signers[i].alg, more[j]);
			make_token(token, head, CLAIMS, i);
			assert_true(!check(token, &bearer));
			assert_true(strcmp(bearer.tenant, "blue") == 0);
			assert_true(bearer.expires == NOW + 100);
			assert_true(jwt_keys_have(keys, bearer.key));
			if (i + j == 0)
				first = bearer;
			/* Whoever signs, and when: the subject is the same. */
			assert_true(
				memcmp(first.subject, bearer.subject, sizeof(first.subject)) == 0);
		}
	}
}

TEST(test_claims)
{
	static const struct {
		const char *claims;
		bool is_taken;
	} rows[] = {
		{CLAIMS, true},
		{"{\"iss\":\"https://as.example\",\"aud\":[\"a\",\"https://gate.example/"
		 "mcp\"],\"sub\":"
		 "\"me\",\"tenant\":\"a.b-c_d@e\",\"exp\":1.7000001e9,\"nbf\":1700000030,\"iat\":"
		 "0}",
			true},
		/* Times. */
		{"{\"iss\":\"https://as.example\",\"aud\":\"https://gate.example/"
		 "mcp\",\"sub\":\"me\","
		 "\"tenant\":\"blue\"}",
			false},
#define WITH(members)                                                                    \
	{"{\"iss\":\"https://as.example\",\"aud\":\"https://gate.example/mcp\",\"sub\":" \
	 "\"me\",\"tenant\":\"blue\"," members "}",                                      \
		false}
		WITH("\"exp\":1700000000"),
		WITH("\"exp\":\"1700000100\""),
		WITH("\"exp\":null"),
		WITH("\"exp\":[1700000100]"),
		WITH("\"exp\":-1"),
		WITH("\"exp\":1e300"),
		WITH("\"exp\":18446744073709551615"),
		WITH("\"exp\":1,\"exp\":1700000100"),
		WITH("\"exp\":1700000100,\"nbf\":1700000031"),
		WITH("\"exp\":1700000100,\"nbf\":\"0\""),
		WITH("\"exp\":1700000100,\"nbf\":true"),
		WITH("\"exp\":1700000100,\"iat\":1700000031"),
		WITH("\"exp\":1700000100,\"iat\":{}"),
	/* Whose, and for whom. */
#define SAYING(iss, aud, sub, tenant)                                          \
	{"{\"iss\":" iss ",\"aud\":" aud ",\"sub\":" sub ",\"tenant\":" tenant \
	 ",\"exp\":1700000100}",                                               \
		false}
#define ISS "\"https://as.example\""
#define AUD "\"https://gate.example/mcp\""
		SAYING("\"https://as.example/\"", AUD, "\"me\"", "\"blue\""),
		SAYING("\"https://as.exampl\"", AUD, "\"me\"", "\"blue\""),
		SAYING("\"https://as.example\\u0000\"", AUD, "\"me\"", "\"blue\""),
		SAYING("[" ISS "]", AUD, "\"me\"", "\"blue\""),
		SAYING("null", AUD, "\"me\"", "\"blue\""),
		SAYING(ISS, "\"https://gate.example\"", "\"me\"", "\"blue\""),
		SAYING(ISS, "\"HTTPS://gate.example/mcp\"", "\"me\"", "\"blue\""),
		SAYING(ISS, "[]", "\"me\"", "\"blue\""),
		SAYING(ISS, "[[" AUD "]]", "\"me\"", "\"blue\""),
		SAYING(ISS, "{" AUD ":1}", "\"me\"", "\"blue\""),
		SAYING(ISS, "null", "\"me\"", "\"blue\""),
		SAYING(ISS, AUD, "\"\"", "\"blue\""),
		SAYING(ISS, AUD, "1", "\"blue\""),
		SAYING(ISS, AUD, "\"me\"", "\"\""),
		SAYING(ISS, AUD, "\"me\"", "\"*\""),
		SAYING(ISS, AUD, "\"me\"", "\"blue\\u0000\""),
		SAYING(ISS, AUD, "\"me\"", "\"blue\\n\""),
		SAYING(ISS, AUD, "\"me\"", "\"../green\""),
		SAYING(ISS, AUD, "\"me\"", "[\"blue\",\"green\"]"),
		SAYING(ISS, AUD, "\"me\"", "null"),
		SAYING(ISS, AUD, "\"me\"", "\"blue\",\"tenant\":\"green\""),
		{"[" CLAIMS "]", false},
		{CLAIMS CLAIMS, false},
		{"", false},
		{"null", false},
	};
	struct jwt_bearer bearer;
	char token[SPACE];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		make_token(token, "{\"alg\":\"EdDSA\",\"kid\":\"d\"}", rows[i].claims, 3);
		if (!check(token, &bearer) != rows[i].is_taken)
			fail_msg("%s: %s", rows[i].claims, rows[i].is_taken ? "refused" : "taken");
	}
}

TEST(test_heads)
{
	static const struct {
		const char *head;
		size_t signer;
	} rows[] = {
		{"{}", 3},
		{"{\"alg\":\"none\"}", 3},
		{"{\"alg\":\"None\"}", 3},
		{"{\"alg\":\"HS256\"}", 3},
		{"{\"alg\":\"HS256\",\"kid\":\"r\"}", 0},
		{"{\"alg\":\"RS256\"}", 3},
		{"{\"alg\":\"RS256\",\"kid\":\"d\"}", 3},
		{"{\"alg\":\"PS256\"}", 0},
		{"{\"alg\":\"RS256\"}", 1},
		{"{\"alg\":\"RS1\"}", 0},
		{"{\"alg\":\"ES256\"}", 3},
		{"{\"alg\":\"ES256\",\"kid\":\"r\"}", 2},
		{"{\"alg\":\"ES512\",\"kid\":\"other\"}", 2},
		{"{\"alg\":\"EdDSA\"}", 2},
		{"{\"alg\":\"Ed25519\"}", 3}, /* the key says EdDSA */
		{"{\"alg\":\"eddsa\"}", 3},
		{"{\"alg\":\"EdDSA\\u0000\"}", 3},
		{"{\"alg\":[\"EdDSA\"]}", 3},
		{"{\"alg\":\"EdDSA\",\"alg\":\"EdDSA\"}", 3},
		{"{\"alg\":\"EdDSA\",\"kid\":\"unknown\"}", 3},
		{"{\"alg\":\"EdDSA\",\"kid\":\"\"}", 3},
		{"{\"alg\":\"EdDSA\",\"kid\":\"d\\u0000\"}", 3},
		{"{\"alg\":\"EdDSA\",\"kid\":null}", 3},
		{"{\"alg\":\"EdDSA\",\"kid\":1}", 3},
		{"{\"alg\":\"RS256\",\"kid\":\"enc\"}", 0},
		{"{\"alg\":\"EdDSA\",\"crit\":[\"x\"]}", 3},
		{"{\"alg\":\"EdDSA\",\"crit\":[]}", 3},
		{"{\"alg\":\"EdDSA\",\"b64\":false}", 3},
		{"{\"alg\":\"EdDSA\",\"zip\":\"DEF\"}", 3},
		{"{\"alg\":\"EdDSA\",\"enc\":\"A128GCM\"}", 3},
		{"{\"alg\":\"EdDSA\",\"typ\":\"dpop+jwt\"}", 3},
		{"{\"alg\":\"EdDSA\",\"typ\":\"logout+jwt\"}", 3},
		{"{\"alg\":\"EdDSA\",\"typ\":1}", 3},
		{"[\"alg\",\"EdDSA\"]", 3},
		{"{\"alg\":\"EdDSA\"}x", 3},
		{"", 3},
	};
	struct jwt_bearer bearer;
	char token[SPACE];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		make_token(token, rows[i].head, CLAIMS, rows[i].signer);
		if (!check(token, &bearer))
			fail_msg("%s is taken", rows[i].head);
	}
}

/* The public key, which everybody has, as the secret of an HMAC. */
TEST(test_a_public_key_is_no_secret)
{
	const char *const secrets[] = {rsa_n, ec_x, ed_x, jwks, ""};
	struct hmac_sha256_ctx context;
	struct jwt_bearer bearer;
	uint8_t digest[32];
	char token[SPACE];

	for (size_t i = 0; i < ARRAY_SIZE(secrets); i++) {
		for (size_t j = 0; j < 2; j++) {
			make_token(token,
				j ? "{\"alg\":\"HS256\",\"kid\":\"r\"}" : "{\"alg\":\"HS256\"}",
				CLAIMS, 3);
			*strrchr(token, '.') = '\0';
			hmac_sha256_set_key(
				&context, strlen(secrets[i]), (const uint8_t *)secrets[i]);
			hmac_sha256_update(&context, strlen(token), (const uint8_t *)token);
			hmac_sha256_digest(&context, sizeof(digest), digest);
			strcat(token, ".");
			append_base64url(token, digest, sizeof(digest));
			assert_true(check(token, &bearer) != NULL);
		}
	}
}

TEST(test_signatures_and_forms)
{
	static const char *const signatures[] = {"", ".", "..", ".AAAA", ".A", ".====",
		".AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
		"AAAAA"};
	static const char good[] = "{\"alg\":\"EdDSA\"}";
	struct jwt_bearer bearer;
	char token[SPACE], edited[2 * SPACE];
	char *end;

	for (size_t signer = 0; signer < ARRAY_SIZE(signers); signer++) {
		snprintf(edited, sizeof(edited), "{\"alg\":\"%s\"}", signers[signer].alg);
		make_token(token, edited, CLAIMS, signer);
		assert_true(!check(token, &bearer));
		end = strrchr(token, '.');
		for (size_t i = 0; i < ARRAY_SIZE(signatures); i++) {
			snprintf(edited, sizeof(edited), "%.*s%s", (int)(end - token), token,
				signatures[i]);
			assert_true(check(edited, &bearer) != NULL);
		}
		/* Each character matters, and none may be added. */
		for (size_t i = 0; i < strlen(token); i += 7) {
			snprintf(edited, sizeof(edited), "%s", token);
			edited[i] = edited[i] == 'A' ? 'B' : 'A';
			assert_true(check(edited, &bearer) != NULL);
		}
		for (const char *more = "=.\n +/A\t"; *more; more++) {
			snprintf(edited, sizeof(edited), "%s%c", token, *more);
			assert_true(check(edited, &bearer) != NULL);
			snprintf(edited, sizeof(edited), "%c%s", *more, token);
			assert_true(check(edited, &bearer) != NULL);
		}
	}
	/* Another's key, also if the token says that it is to be used. */
	make_token(token, good, CLAIMS, 3);
	*strrchr(token, '.') = '\0';
	append_signature(token, strange, GNUTLS_SIGN_EDDSA_ED25519);
	assert_true(check(token, &bearer) != NULL);
	/* The last bits of base64url, which hold nothing, are not free. */
	make_token(token, good, CLAIMS, 3);
	token[strlen(token) - 1]++;
	assert_true(check(token, &bearer) != NULL);
	/* An encrypted one has five parts. */
	snprintf(edited, sizeof(edited), "%s.%s.%s", token, "AAAA", "AAAA");
	assert_true(check(edited, &bearer) != NULL && check("", &bearer) != NULL);
	memset(edited, 'A', sizeof(edited) - 1);
	edited[sizeof(edited) - 1] = '\0';
	edited[10] = edited[20] = '.';
	assert_true(check(edited, &bearer) != NULL);
}

static void write_two_keys(char text[static SPACE], const char *one, const char *two)
{
	snprintf(text, SPACE,
		"{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"%s\",\"kid\":\"%s\"},"
		"{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"%s\",\"kid\":\"%s\"}]}",
		ed_x, one, ed_x, two);
}

TEST(test_sets_of_keys_that_are_none)
{
	static const char *const texts[] = {"", "[]", "{}", "{\"keys\":{}}", "{\"keys\":[]}",
		"{\"keys\":[1]}", "{\"keys\":[{\"kty\":\"oct\",\"k\":\"AAAA\"}]}",
		"{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"X25519\",\"x\":\"AAAA\"}]}",
		"{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"AAAA\"}]}",
		"{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\"}]}",
		"{\"keys\":[{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\"}]}",
		"{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AAAA\",\"y\":\"AAAA\"}]}"};
	/* Behind a good coordinate. */
	static const char *const tails[] = {"\",\"d\":\"AAAA\"}]}", "\",\"use\":\"enc\"}]}",
		"\",\"key_ops\":[\"sign\"]}]}", "\",\"key_ops\":\"verify\"}]}",
		"\",\"alg\":\"HS256\"}]}", "\",\"alg\":\"RS256\"}]}", "\",\"alg\":1}]}",
		"\",\"kid\":7}]}", "\"}]}x", "=\"}]}", "A\"}]}"};
	struct jwt_keys *read;
	char text[SPACE];
	const char *fault;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		fault = NULL;
		assert_true(!jwt_keys_read(text_from(texts[i]), &fault) && fault);
	}
	for (size_t i = 0; i < ARRAY_SIZE(tails); i++) {
		snprintf(text, sizeof(text),
			"{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"%s%s", ed_x,
			tails[i]);
		if (jwt_keys_read(text_from(text), &fault))
			fail_msg("%s is read", text);
	}
	for (size_t twice = 0; twice < 2; twice++) {
		write_two_keys(text, "a", twice ? "a" : "b");
		read = jwt_keys_read(text_from(text), &fault);
		assert_true(!read == (twice > 0));
		jwt_keys_free(read);
	}
	/* An exponent of 1, whose signatures anybody can make, and an even one. */
	for (const char *const *e = (const char *const[]){"AQ", "Ag", "AAAAAAAAAAE", "", NULL}; *e;
		e++) {
		snprintf(text, sizeof(text),
			"{\"keys\":[{\"kty\":\"RSA\",\"n\":\"%s\",\"e\":\"%s\"}]}", rsa_n, *e);
		assert_true(!jwt_keys_read(text_from(text), &fault));
	}
}

/* Two keys without a name: a token must say which. */
TEST(test_a_token_without_kid_is_of_the_only_key)
{
	struct jwt_bearer bearer;
	struct jwt_keys *both;
	char text[SPACE], token[SPACE];
	const char *fault;

	write_two_keys(text, "a", "b");
	both = jwt_keys_read(text_from(text), &fault);
	assert_true(both != NULL);
	make_token(token, "{\"alg\":\"EdDSA\"}", CLAIMS, 3);
	assert_true(jwt_check(both, &rules, text_from(token), NOW, &bearer) != NULL);
	make_token(token, "{\"alg\":\"EdDSA\",\"kid\":\"b\"}", CLAIMS, 3);
	assert_true(jwt_check(both, &rules, text_from(token), NOW, &bearer) == NULL);
	jwt_keys_free(both);
}

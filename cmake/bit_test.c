// SPDX-License-Identifier: Apache-2.0
/*
 * Run when the build is configured: exits with 1 if the compiler inverts "agreed == N || agreed ==
 * C" with -O2, as Debian 13's gcc 14.2.0-19 does for x86-64 (it tests the bit by BT and then takes
 * the other CMOV).
 */
enum state { N, A, B, C };

struct session {
	unsigned char agreed;
};

__attribute__((noinline)) static enum state find(int number)
{
	for (int i = 1; i < 4; i++)
		if (number == i * 7)
			return (enum state)i;
	return N;
}

__attribute__((noinline)) static void agree(struct session *session, int number)
{
	session->agreed = (unsigned char)find(number);
	if (session->agreed == N || session->agreed == C)
		session->agreed = B;
}

int main(void)
{
	static const unsigned char wanted[] = {B, A, B, B};
	struct session session;
	int wrong = 0;

	for (int i = 0; i < 4; i++) {
		agree(&session, i * 7);
		wrong |= session.agreed != wanted[i];
	}
	return wrong;
}

// Package model checks how a lock on N independent masters makes its tokens: it
// explores every schedule of small worlds, and shows for each wrong rule the
// shortest schedule that breaks it. All of it is tests; nothing is to be imported.
//
// # The protocol
//
// Each master keeps two things of a name: the key, whose value is its owner's id,
// and a counter. Each carries a request out in one step, as a script does.
//
//	take(id, hint)    owner is nobody: owner = id, counter = max(counter, hint) + 1
//	                  owner is id now: answers mine, and the counter
//	                  otherwise:       no; nothing changes
//	raise(id, token)  owner is id and counter <= token: counter = token, an ack
//	                  otherwise:                        no; nothing changes
//
// A client sends take to every master. Once a majority has said mine it chooses
// those, or any greater part of those that did, as S; its token is the highest
// counter that S answered, and the masters that answered just this have
// acknowledged it. It is granted the token when a majority has; if that is not so
// at once, it sends raise to the others of S. So one round is all where a majority
// agrees, as it does unless requests were lost or clients collided: this is the
// rule oneRound. The hint is any number, and only ever makes masters agree sooner.
//
// In the rule twoRounds, for comparison, take only reads: the token is one more than
// the highest counter of S, and every master of S is asked to raise its counter to
// it, which has to be lower.
//
// # What is checked
//
//   - Two claims are never granted the same token.
//   - A try that begins after a token was granted to another claim is granted a
//     higher one; after one was granted to its own claim, a higher or the same.
//
// A try begins when its first request is sent; it is granted at the moment the last
// acknowledgement of a majority is given, before its client can know. Tries whose
// times overlap may be granted in one order and have tokens in the other: a
// grant that comes late may have the lower token, which a resource that has seen
// the higher refuses. TestReached prints such a schedule.
//
// That at most one client holds is not checked, because it is not so: keys vanish
// here at any moment, and it is time (validity, clocks, restarts without a vote)
// that keeps holds apart. Tokens are for when that has failed.
//
// # Why it is so
//
// A master gives each number to one claim at most. take only counts upwards, and
// sets owner and counter in one step; raise needs ownership, and below an owner
// the counter is always one that was given to it. An acknowledgement is a number
// given, and two majorities have a master in common: two claims have two tokens.
// And once a token is granted, a majority has given it; a later claim has to take
// one of these masters before that acknowledges anything, and is given more then.
//
// So it is the acknowledgements alone that make a token right. S only decides which
// one to ask for: it may be of any size, and the highest answer is no more than
// what has a chance.
//
// # The model
//
// Requests are carried out never, once or many times, at any moment after they
// were sent, answers are lost: messages get lost, late and doubled, client
// libraries send again, clients stop for ever. A key vanishes at any moment: it
// expires, is deleted or evicted, or the clock of the master steps. A claim is tried
// again, also while its first try goes on. Other programs that set and delete the
// key itself add no schedule: they are masters that do not answer, and keys that
// vanish. Nor does extending a lease, which changes neither owner nor counter, nor
// releasing it, which is one more way for a key to vanish; a world with releases is
// explored besides. Masters forget only where a world says so.
//
// Left out as they change nothing: which master has which name (states are sorted),
// and the moment between a key's vanishing and the next take (nobody can see it).
//
// # Bounds and figures
//
// The command make model explores every state of these worlds, in 5 minutes on one core and in
// 2 GB of memory. Ordinary tests look at the first 100,000 states of each. With two
// rounds counters need no bound, as only tokens raise them. Where taking counts
// they do, and nothing above the bound is explored.
//
//	rule        masters  tries    counters                               states
//	two rounds  3        A B C                                        2,779,759
//	two rounds  5        A B                                            366,029
//	two rounds  3        A B A'                                         803,897
//	two rounds  3        A B      releases                               25,182
//	two rounds  3        A B      late masters count                     12,923
//	two rounds  3        A B      S of any size                          24,337
//	two rounds  3        A B      to 4, restarts above every number     899,266
//	one round   3        A B C    to 4                                6,227,934
//	one round   5        A B      to 4                               15,847,892
//	one round   3        A A' B   to 4                                4,763,517
//	one round   3        A B A'   to 4                                4,877,538
//	one round   3        A B B'   to 4                                4,820,357
//	one round   3        A B C    to 3, hints, late masters count       985,035
//	one round   5        A B      to 3, hints, late masters count     1,310,406
//	one round   3        A B      to 5, S of any size                   577,336
//	one round   3        A B      to 5, releases                      1,708,697
//	one round   3        A B      to 5, restarts above every number   1,081,240
//
// A' is a second try of claim A. States that differ in the names of masters are one.
//
// # What has to fail, and does
//
//	one phase: masters count, and the highest answer is believed          8 steps
//	equal counters are believed, although nobody wrote them               8
//	two rounds, raise looks at the owner only, requests are repeated     13
//	two rounds, the same, nothing repeated, acks from outside S count    13
//	two rounds, raise acknowledges what the counter has already          13
//	two rounds, masters forget                                           13
//	one round, raise looks at the owner only                             12
//	one round, raise looks at the counter only                           13
//	one round, a renewal sets the key where it has vanished              13
//	one round, masters forget                                             9
//
// TestWrongRulesFail prints the schedules. It turned out to be harmless if acks from
// outside S count, as long as raise looks at the counter; and if a master
// forgets but begins above every number there was, as one does whose clock is ahead
// of all tokens. With two rounds the counter alone makes a token right and owners
// matter to the lock only; with one round raise needs both.
package model

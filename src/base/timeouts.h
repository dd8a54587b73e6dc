#pragma once
// Every time after which the product acts, looks again or gives up. The comment of each says from
// what to what it runs, what happens then, and why it is so long: plugin/REFERENCE.md has them as a
// table. tests/tidy lets no other file define such a time. Settings have theirs in
// src/base/settings_table.cc, and the software fabric has its own. Thread: any (constants). Bound:
// none.

#include "src/base/clock.h"

#include <cstdint>

namespace mesh {

// ---- Control connections.

// From: the last byte of the peer's kernel, or a keep-alive probe. To: the next one. Then: TCP
// asks. TCP sends three probes.
inline constexpr int kSilenceToKeepAliveSeconds = 5;
// From: the last byte of the peer's kernel. To: the next one. Then: the control connection is
// lost. 5 s and three probes.
inline constexpr int kSilenceToDeadHostMs = 20'000;
// From: a connection is accepted. To: its first frame identifies it. Then: the unauthenticated
// connection is dropped; a connector says HELLO again. A connector sends its first frame in the
// round trip after the kernel has accepted it. 5 s are time for a peer that is stopped for a
// moment, and short for one that only holds a descriptor.
inline constexpr std::uint64_t kAcceptToFirstFrameNs = 5 * kNsPerSecond;
// From: the first byte of a frame. To: its last byte. Then: the connection is lost. A frame has
// 17.5 KiB at most: 14 kb/s for the slowest peer.
inline constexpr std::uint64_t kFrameBeginToEndNs = 10 * kNsPerSecond;
// From: SYN to one address. To: TCP is up. Then: the next address is dialed. TCP sends SYN at 0,
// 1, 3 and 7 s.
inline constexpr std::uint64_t kDialToAnswerNs = 10 * kNsPerSecond;
// From: SYN to one address of several. To: TCP is up. Then: the next address is dialed, and this
// one later again. If a peer has several addresses, each has so long at first, as in RFC 8305
// (Happy Eyeballs): longer than a round trip between hosts of a job, and seven silent ones cost
// two seconds.
inline constexpr std::uint64_t kFirstDialToNextNs = 300 * kNsPerMs;
// From: SYN to it again. To: TCP is up. Then: the next address is dialed, and this one again for
// the whole time. Each address that was silent then has time for three SYNs, and at last the whole
// time.
inline constexpr std::uint64_t kSecondDialToNextNs = 3 * kNsPerSecond;
// From: an unauthenticated connection is accepted. To: it may give way to a newer one. Then: the
// oldest unauthenticated connection is dropped. 256 unauthenticated connections in 10 ms each are
// 25,000 a second, as fast as they can be accepted.
inline constexpr std::uint64_t kAcceptToGiveWayNs = 10 * kNsPerMs;
// From: no descriptor is left. To: the next accept or dial. Then: it tries again. A program that
// frees descriptors does so now and then; ten looks a second cost nothing.
inline constexpr std::uint64_t kNoDescriptorToRetryNs = 100 * kNsPerMs;
// From: we close a connection, say BYE on a link, or close a communicator. To: all that was to be
// sent is sent, and the peers have ended too. Then: it is cut. A live peer answers at once, and its
// kernel is near.
inline constexpr std::uint64_t kCloseToCutNs = kNsPerSecond;

// From: finalize or exit waits for the devices of an engine that has said goodbye. To: they have
// given up all that was made on them. Then: a thread waits for them, or the kernel ends it all.
// Devices that work take milliseconds, and NCCL calls finalize under a mutex of the process.
inline constexpr int kEndToLeftMs = 500;

// ---- A lost control connection.

// From: an acceptor loses a connection. To: it asks for a new one with SUMMON. Then: SUMMON. The
// connector dials by itself if it has noticed the loss too, within a few round trips.
inline constexpr std::uint64_t kLossToSummonNs = 100 * kNsPerMs;
// From: SYN to one address, or TCP is up at an unproven one. To: TCP is up, or a frame. Then: the
// next address is dialed. TCP sends SYN at 0 and 1 s, so a lost one is no failure yet.
inline constexpr std::uint64_t kRedialToAnswerNs = 2 * kNsPerSecond;
// From: SYN of the last try. To: TCP is up. Then: the link's whole wait (`NCCL_MESH_PATH_TIMEOUT`)
// is over, and the link ends. The last try before the end of the whole wait has time for a round
// trip between sites.
inline constexpr std::uint64_t kRedialToAnswerMinNs = 100 * kNsPerMs;
// From: the peer's kernel ends the connection. To: the connector dials again. Then: the link is
// lost. A live connector dials at once.
inline constexpr std::uint64_t kStreamEndToRedialNs = kNsPerSecond;
// From: no connection has come back in its time, and a path is up. To: a sign of the peer on such
// a path. Then: the link is lost. More than twice the time in which NCCL_IB_TIMEOUT and
// NCCL_IB_RETRY_CNT, as they are by default, end a path to a peer that is gone.
inline constexpr std::uint64_t kSignToSignNs = 5 * kNsPerSecond;
// From: a side sends its first FENCE. To: any FENCE of the peer. Then: the peer's other addresses
// are dialed. A FENCE is answered in a round trip, whatever the peer's device does. A connection
// that is slower is replaced, which costs little.
inline constexpr std::uint64_t kFenceToOtherWayNs = 200 * kNsPerMs;
// From: a dial fails, or finds no room. To: the next dial, at first. Then: it dials. Doubled after
// each try. A network that is back is found within a second.
inline constexpr std::uint64_t kDialPauseMinNs = 10 * kNsPerMs;

// ---- Handshakes.

// From: a step of a handshake, or OPEN. To: the peer's answer. Then: the connect fails on both
// sides, with a line that names the step. A peer that is stopped in the middle of a handshake
// counts as slow, and is waited for, but for five minutes only. That is half of the ten minutes
// after which PyTorch's watchdog ends the job, so our log line, which names the step and the peer,
// comes first.
inline constexpr std::uint64_t kHandshakeStepToAnswerNs = 300 * kNsPerSecond;
// From: the last step of a link without a channel. To: it may give way. Then: it gives way where
// there are 256. If a device takes 3 ms for a command, 256 peers that come at once take 16 s
// together, so no handshake that moves may give way to another.
inline constexpr std::uint64_t kHalfOpenToGiveWayNs = 20 * kNsPerSecond;
// From: an acceptor loses a connection after WELCOME. To: the connector says HELLO again. Then:
// the accept fails. A dropped connector dials at once, and again after a second if nothing
// answers: ten tries.
inline constexpr std::uint64_t kLostHelloToNextNs = 10 * kNsPerSecond;
// From: HELLO to one address of several. To: WELCOME. Then: HELLO goes to the peer's next address.
// Almost twice the 16 s that 256 peers at once take (kHalfOpenToGiveWayNs): only a host that is
// none of the peer's, or one that is stopped, is silent for so long. Doubled after each address.
inline constexpr std::uint64_t kHelloToNextAddressNs = 30 * kNsPerSecond;
// From: datagrams go out over ports in doubt. To: a port answers. Then: ports meet by their place.
// A datagram and its answer take less than a millisecond on a quiet host, and more than 100 ms on
// an emulated one. A peer that drops datagrams costs its first connect a second.
inline constexpr std::uint64_t kProofToPlaceNs = kNsPerSecond;
// From: datagrams go out, and a port in doubt is down. To: a port answers. Then: ports meet by
// their place. A port that is down may have the only cable to the peer: a flap of a second or two
// is over by then. A peer that has answered once, and does not go on to answer, is waited for as
// long.
inline constexpr std::uint64_t kProofOfDownToPlaceNs = 3 * kNsPerSecond;
// From: the first datagram. To: the second one. Then: it is sent again. Doubled after each
// datagram: seven of them in a second, so that a lost one loses no cable.
inline constexpr std::uint64_t kProofToAskAgainNs = 10 * kNsPerMs;
// From: a datagram. To: the next one, at last. Then: it is sent again. Seven in the first second,
// one more for each port that comes up later.
inline constexpr std::uint64_t kProofToAskAgainMaxNs = 640 * kNsPerMs;
// From: the first answer. To: the last one. Then: ports that are silent do not meet. A peer that
// goes on to answer over one cable has answered over all that lead to it by then, and a lost
// datagram has been sent again.
inline constexpr std::uint64_t kProofToSettledNs = 100 * kNsPerMs;
// From: the addresses of our ports were last read, or UDP port 28005 was found taken. To: they are
// read again, or it is tried again. Then: datagrams go by the addresses that are there. A kernel
// tests an IPv6 address for duplicates for 1 to 2 s.
inline constexpr std::uint64_t kEndToReadAgainNs = kNsPerSecond;
// From: a link has asked for its cables again. To: it may ask once more. Then: it asks if there is
// a reason. Two questions while cables are moved by hand.
inline constexpr std::uint64_t kAskCablesToNextNs = 500 * kNsPerMs;
// From: ASK CABLES. To: CABLES ARE. Then: it may ask once more. The acceptor answers after
// kProofOfDownToPlaceNs and a round trip at the latest.
inline constexpr std::uint64_t kAskCablesToAnswerNs = 5 * kNsPerSecond;
static_assert(kAskCablesToAnswerNs > kProofOfDownToPlaceNs);
// From: the probes of a link between sites. To: all have come back. Then: the round trip of HELLO
// counts. Four of the longest round trips between sites.
inline constexpr std::uint64_t kProbeToRoundTripNs = 2 * kNsPerSecond;
// From: the probe of a link's only path, which addresses alone have chosen. To: it has come back.
// Then: the connector dials anew, and datagrams tell whether the ports meet. Longer than a busy
// host keeps an answer back; if it is slower than that, there is a second handshake.
inline constexpr std::uint64_t kProbeToAskNs = kNsPerSecond;
// From: HELLO. To: WELCOME. Then: the rest counts as the peer's own time. No round trip between
// sites is longer: the rest is the peer's own time, which is not for timers.
inline constexpr std::uint64_t kHelloToWelcomeMaxNs = 500 * kNsPerMs;
// From: a probe. To: its completion. Then: it counts as this. ATTACH has 32 bits, and a bound.
inline constexpr std::uint32_t kRoundTripMaxUs = 60'000'000;

// From: a card is asked to register memory that a link can do without, or for the protection domain
// of a communicator that has another card. To: it has. Then: one line, and links come up without
// its rail as standby until it has. Pinning a page takes microseconds. Each communicator waits so
// long once for a device that hangs.
inline constexpr std::uint64_t kSpareCallToLateNs = kNsPerSecond / 2;
// From: the devices of this host are looked at, all at a time, or one of them has answered. To:
// another one has. Then: one line, and the plugin starts without the ports of the rest if a port is
// up. A device takes milliseconds for each of some ten commands, but the ports are lost for as long
// as the process has a communicator.
inline constexpr std::uint64_t kCardLookToLateNs = 10 * kNsPerSecond;
// From: a bring-up or a fence gives a card a command. To: the card answers. Then: one line names
// the card and the command; the link waits on. A command takes milliseconds, and hundreds of them
// beside 256 peers that come at once. A thread that gets no processor for seconds is told of, too.
inline constexpr std::uint64_t kCallToToldNs = 5 * kNsPerSecond;

// ---- Lost paths.

// From: a path is fenced, a card has left, or other hosts were asked. To: the next try, at first.
// Then: REOPEN, a look for a new card, or the question again. A flap is shorter. Doubled after each
// try. Pauses between questions to neighbours are up to half longer by chance, so that hosts that
// ask one another do not go on in step.
inline constexpr std::uint64_t kTryPauseMinNs = 50 * kNsPerMs;
// From: a dial fails or finds no room, or other hosts were asked. To: the next try, at last. Then:
// it dials or asks again. A network that is back is found soon, and a question is one datagram for
// each port.
inline constexpr std::uint64_t kTryPauseMaxNs = kNsPerSecond;
// From: a look at a port, at what a link has sent, or at the paths with traffic. To: the next one.
// Then: it looks: the port has a newer answer, a busy link opens the way round, each path gets a
// timed write. A look is two commands to the device at most; events are faster. 600 timed writes a
// minute, so six of them decide a minute's p99.
inline constexpr std::uint64_t kLookToNextNs = 100 * kNsPerMs;
// From: the queue pairs of a lost path are stopped. To: all their receives have come back. Then:
// FENCE waits until the queue pairs are destroyed. A device at work flushes sooner, and a queue
// pair that is destroyed leaves no receive open either.
inline constexpr std::uint64_t kStopToDrainedNs = kNsPerSecond;
// From: queue pairs of a lost path are to stop, or have stopped. To: the device has stopped them,
// or flushed and destroyed them. Then: the link ends, except for a sender's after the receiver's
// FENCE. mlx5 gives firmware 60 s for a command. Or `NCCL_MESH_PATH_TIMEOUT` if that is more.
inline constexpr std::uint64_t kStopToGivenUpNs = 65 * kNsPerSecond;
// From: a try fails while no path is up. To: the next try, at last. Then: REOPEN. While no path is
// up a try disturbs nothing.
inline constexpr std::uint64_t kReopenPauseStalledMaxNs = 400 * kNsPerMs;
// From: a try fails. To: the next try, at last. Then: REOPEN. Tries disturb the other paths.
inline constexpr std::uint64_t kReopenPauseMaxNs = 10 * kNsPerSecond;
// From: a try of a path that is a guess fails while another path is up. To: the next try, at last.
// Then: REOPEN. Its ports most likely do not meet; a port that comes up ends the pause.
inline constexpr std::uint64_t kReopenPauseOfGuessMaxNs = 60 * kNsPerSecond;
// From: REOPEN, the probes, a question to a host on the way, or the acknowledgement of WIDEN. To:
// the answer. Then: the try has failed; WIDEN is said once more, and then the path is lost. Long
// enough for a kernel to ask for an address three times, a second apart.
inline constexpr std::uint64_t kReopenToAnswerNs = 10 * kNsPerSecond;
// From: a path comes back. To: its next failure. Then: if it fails sooner, the next pause is
// longer, and `NCCL_MESH_PATH_TIMEOUT` runs on from the first loss, without the time in which the
// path owed nothing. As long as the longest pause: a later failure is a new trouble.
inline constexpr std::uint64_t kPathUpToSteadyNs = 10 * kNsPerSecond;
// From: a completion is owed on a path. To: any completion on it, while others come on another
// path to the peer. Then: the path is lost. Longer than NCCL_IB_TIMEOUT and NCCL_IB_RETRY_CNT take
// by default, and than firmware hangs by itself now and then. These settings make it longer, up to
// three quarters of NCCL_MESH_PATH_TIMEOUT.
inline constexpr std::uint64_t kSilenceToLossNs = 3 * kNsPerSecond;
// From: a completion is owed on a path. To: any completion on it, while none comes on another path
// to the peer. Then: the path is lost. If no other path shows any either, a pause storm or a full
// switch may hold them all, and to leave gains little.
inline constexpr std::uint64_t kSilenceOfAllToLossNs = 10 * kNsPerSecond;
// From: a look at the completions of paths. To: the next one. Then: it looks. The first look
// begins the silence, so four looks at least find a path silent.
inline constexpr std::uint64_t kSilenceLookToNextNs = 450 * kNsPerMs;
// From: a look at the completions of paths. To: the next one, if it comes late. Then: the rest is
// this process's own pause. The control thread looks once a second while nothing is due.
inline constexpr std::uint64_t kSilenceLookCountsMaxNs = 1100 * kNsPerMs;
// From: standby paths of one tier are opened. To: those of the next tier. Then: the next tier is
// opened too. A tier that works is up before the next one begins, and a dead tier holds up nobody.
inline constexpr std::uint64_t kTierToNextNs = 50 * kNsPerMs;
// From: a look for a new card. To: the next one, at last. Then: it looks. A card that stays away
// costs little.
inline constexpr std::uint64_t kCardLookToNextMaxNs = 2 * kNsPerSecond;

// ---- Closing.

// From: REVOKE, or a wait for posted sends. To: the peer's answer, or their completions. Then: the
// link is cut; `kStopToDrainedNs` later if a path is fenced then and another is up. NCCL's abort
// waits for this under a mutex of the process.
inline constexpr std::uint64_t kRevokeToCutNs = 500 * kNsPerMs;
// From: REVOKE, or a wait for posted sends. To: their completions. Then: paths on which nothing
// completes are left, if others move. The fence of a path that is left takes a round trip, and
// must be over before the link is cut.
inline constexpr std::uint64_t kRevokeToLeftNs = kRevokeToCutNs / 2;
// From: a peer was cut. To: another peer is waited for again. Then: it is patient again. An abort
// takes back many regions in a row: the second peer that is silent costs nothing more.
inline constexpr std::uint64_t kCutToPatienceNs = kNsPerSecond;
// From: CLOSE. To: all that it counts has arrived. Then: the requests fail with PeerClosed. Data
// is slower than frames.
inline constexpr std::uint64_t kCloseToAnnouncedNs = kNsPerSecond;

// ---- Paths over other hosts.

// From: a host has answered a question, a path over it has failed, or no port of it has answered.
// To: it is forgotten. Then: it is asked again if there is a reason. It may have ended, or be of
// use again: a firewall is opened, an address becomes valid.
inline constexpr std::uint64_t kHostKnownNs = 60 * kNsPerSecond;
// From: a question to a neighbour, or to a host on the way. To: its answer, or any byte of it.
// Then: it is no longer waited for. Longer than a round trip on emulated hosts. For a host on the
// way a third of NCCL_MESH_PATH_TIMEOUT if that is less: there must be time for another try.
inline constexpr std::uint64_t kHelperToAnswerNs = 2 * kNsPerSecond;
// From: a host, or the neighbours, were last asked. To: the next question. Then: the pause between
// questions is the least one again. Ten of the longest pauses.
inline constexpr std::uint64_t kAskedToForgottenNs = 10 * kNsPerSecond;
// From: work on a relayed path. To: a count comes back. Then: the path is lost. 20 sleeps of a host
// on the way whose device has no completion events, which are 0.1 s at most, and a round trip.
inline constexpr std::uint64_t kRelayWorkToCountNs = 2 * kNsPerSecond;
// From: a look at relayed paths, or at chains through this host. To: the next one. Then: lost
// paths are left, broken chains freed. A quarter of kRelayWorkToCountNs.
inline constexpr std::uint64_t kRelayLookToNextNs = 500 * kNsPerMs;
// From: a lazy link is to send. To: some host knows a way. Then: its requests fail. A neighbour
// may come up later than the first message.
inline constexpr std::uint64_t kStallToNoRouteNs = 2 * kNsPerSecond;
// From: a lazy link of a job with `NCCL_MESH_JOB` is to send. To: some host answers. Then: its
// requests fail. With NCCL_MESH_JOB the processes of the hosts between may begin later than ours:
// communicators come up one after the other. Or NCCL_MESH_PATH_TIMEOUT if that is less.
inline constexpr std::uint64_t kStallToNobodyNs = 10 * kNsPerSecond;
// From: the first datagram that counts. To: datagrams are counted anew. Then: more are only
// counted. Datagrams are counted by the second: only so many are looked at, and so many answered.
inline constexpr std::uint64_t kNeighbourBudgetNs = kNsPerSecond;
// From: ASK_PEERS. To: PEERS. Then: the connection is closed. More than twice
// kHelperToAnswerNs.
inline constexpr std::uint64_t kAskPeersToAnswerNs = 5 * kNsPerSecond;
// From: the thread of the chains sleeps. To: it looks again, at last. Then: it looks. A completion
// wakes it before. While completions cannot wake it, a sleep is at most 1/64 of the pause that it
// prolongs.
inline constexpr std::uint64_t kRelayNapMaxNs = 100 * kNsPerMs;
// From: the host that asked for a chain is lost. To: its last counts are written. Then: the chain
// is freed. The thread of the chains is woken for that, and may be late by its turns.
inline constexpr std::uint64_t kAskerLostToPartedNs = 2 * kRelayNapMaxNs;
// From: a look whether the counts are written. To: the next one. Then: it looks. 40 looks at most.
inline constexpr std::uint64_t kPartLookToNextNs = 5 * kNsPerMs;
// From: a message reaches a host on the way. To: it goes on. Then: shares of paths are reckoned
// with it. The model of perf/model: beside what the host stores.
inline constexpr std::uint64_t kRelayHostDelayNs = 1200;

// ---- One-shot all-reduce.

// From: NCCL connects a one-shot group. To: every member has said hello. Then: the communicator
// goes without one-shot all-reduce. NCCL's service thread is held meanwhile, and an abort waits
// for it. Members come to this point within a round of NCCL's bootstrap.
inline constexpr std::uint64_t kOneShotConnectToGiveUpNs = 10 * kNsPerSecond;
// From: a look at the members of a group that connects. To: the next one. Then: it looks. A start
// is not hurried.
inline constexpr std::uint64_t kOneShotLookToNextNs = 100'000;

// ---- Threads at rest.

// From: a poller, the thread of the chains, or one that has yielded 64 times found nothing. To: it
// looks again, at first. Then: it looks, or naps. Callers poll a poller's loops meanwhile. Doubled
// each time, so a thread is away for about twice the pause at most.
inline constexpr std::uint64_t kNapMinNs = 50'000;
// From: a poller dozes, or stands back from its CPU. To: it looks again at last, or tries whether
// it keeps its CPU. Then: it polls again, or is away again. One look a second costs nothing, and
// the trials, kPollerProbeNs each, take a hundredth of a core.
inline constexpr std::uint64_t kPollerAwayMaxNs = kNsPerSecond;
// From: the control thread has no work. To: it looks at open requests. Then: it looks. A second is
// soon for a line.
inline constexpr int kControlIdleWaitMs = 1000;
// From: a step is waited for. To: the control thread looks again. Then: it looks. A thousandth of
// a core.
inline constexpr int kControlBusyWaitMs = 1;
// From: a look at all links, for each link. To: the next one. Then: it looks. A look at one of
// many links takes 2 us, because its memory is in no cache: a hundredth of this.
inline constexpr std::uint64_t kSweepPerLinkNs = 200'000;
// From: a poller waits for its CPU. To: it has its CPU again. Then: it stands back. A thread that
// waits for its CPU for so long shares it with one that does not yield: a slice of the kernel's
// scheduler has 0.7 ms or more.
inline constexpr std::uint64_t kLostCpuNs = kNsPerMs / 2;
// From: a poller tries whether it keeps its CPU. To: it has kept it. Then: it polls again. Some
// slices of the kernel's.
inline constexpr std::uint64_t kPollerProbeNs = 10 * kNsPerMs;
// From: a thread that brought something up, or waited for a device, has no task. To: the thread
// ends. Then: the next task starts a thread. Longer than the pauses between the tasks of a start.
inline constexpr std::uint64_t kPoolIdleToEndNs = 200 * kNsPerMs;
// From: 64 yields to another thread. To: the next look, at last. Then: it looks. A thousandth of a
// core.
inline constexpr std::uint64_t kYieldingSleepMaxNs = kNsPerMs;

// ---- What is told.

// From: a look at the oldest requests. To: the next one. Then: ages are counted on. Below the
// control thread's second, so that no pass is left out.
inline constexpr std::uint64_t kRequestLookToNextNs = 900 * kNsPerMs;
// From: a look at the oldest requests. To: the next one. Then: this process stood still, and no
// line blames a peer. The control thread comes by every second; five missed looks are no load of
// this host.
inline constexpr std::uint64_t kLookToPausedNs = 5 * kNsPerSecond;
// From: a request opens. To: the metrics show it as a wait. Then: it is shown. Healthy ones are
// shorter.
inline constexpr std::uint64_t kRequestOpenToShownNs = kNsPerSecond;
// From: timed writes are posted. To: the control thread ceases to poll for them. Then: it naps
// between its looks. Longer than a round trip over a cable. Ten times a second it is 2 ms of
// processor time at most.
inline constexpr std::uint64_t kTimedPostToNapNs = 200'000;
// From: a look for the completion of a timed write. To: the next one, at first. Then: it looks. A
// quarter of the write's age, but the control thread waits whole milliseconds.
inline constexpr std::uint64_t kTimedNapMinNs = kNsPerMs;
// From: the first line that an unauthenticated connection causes. To: lines are counted anew.
// Then: more lines are only counted. 16 lines in it.
inline constexpr std::uint64_t kLogBudgetWindowNs = 10 * kNsPerSecond;
// From: a page of metrics. To: the next one. Then: it is written. NCCL_MESH_STATS says another
// time.
inline constexpr int kStatsPeriodSeconds = 10;
// From: a page of metrics. To: the next one, at last. Then: a longer setting is refused. An hour.
inline constexpr int kStatsPeriodMaxSeconds = 3600;
// From: the plugin ends. To: the last page is written. Then: one line, and the page may be
// missing. A file system that works is done sooner.
inline constexpr int kExitToLastPageMs = 1000;

// ---- Units of others.

// InfiniBand specification, 9.7.6.1.3.
inline constexpr std::uint64_t kAckTimerUnitNs = 4096;

}  // namespace mesh

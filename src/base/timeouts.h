#pragma once
// Every time after which the product acts, looks again or gives up. The table of engine/README.md
// says of each from what to what it runs and what happens then; tests/tidy holds it to this file
// and lets no other file define such a time. Settings have theirs in src/base/settings_table.cc,
// and the software fabric has its own. Thread: any (constants). Bound: none.

#include "src/base/clock.h"

#include <cstdint>

namespace mesh {

// ---- Control connections.

// TCP sends keep-alive probes after 5 s without an answer, and 3 of them 5 s apart.
inline constexpr int kSilenceToKeepAliveSeconds = 5;
inline constexpr int kKeepAliveToNextSeconds = 5;
inline constexpr int kSilenceToDeadHostMs = 20'000;
// A connector sends its first frame in the round trip after the kernel has accepted it. 5 s are
// time for a peer that is stopped for a moment, and short for one that only holds a descriptor.
inline constexpr std::uint64_t kAcceptToFirstFrameNs = 5 * kNsPerSecond;
// A frame has 17.5 KiB at most: 14 kb/s for the slowest peer.
inline constexpr std::uint64_t kFrameBeginToEndNs = 10 * kNsPerSecond;
// TCP sends SYN at 0, 1, 3 and 7 s.
inline constexpr std::uint64_t kDialToAnswerNs = 10 * kNsPerSecond;
// If a peer has several addresses, each has so long at first, as in RFC 8305 (Happy Eyeballs):
// longer than a round trip between hosts of a job, and seven silent ones cost two seconds.
inline constexpr std::uint64_t kFirstDialToNextNs = 300 * kNsPerMs;
// Each address that was silent then has time for three SYNs, and at last the whole time.
inline constexpr std::uint64_t kSecondDialToNextNs = 3 * kNsPerSecond;
// 256 unauthenticated connections in 10 ms each are 25,000 a second, as fast as they can be
// accepted.
inline constexpr std::uint64_t kAcceptToGiveWayNs = 10 * kNsPerMs;
// A program that frees descriptors does so now and then; ten looks a second cost nothing.
inline constexpr std::uint64_t kNoDescriptorToRetryNs = 100 * kNsPerMs;
inline constexpr std::uint64_t kCloseToCutNs = kNsPerSecond;

// ---- A lost control connection.

// The connector dials by itself if it has noticed the loss too, within a few round trips.
inline constexpr std::uint64_t kLossToSummonNs = 100 * kNsPerMs;
// TCP sends SYN at 0 and 1 s, so a lost one is no failure yet.
inline constexpr std::uint64_t kRedialToAnswerNs = 2 * kNsPerSecond;
// The last try before the end of the whole wait has time for a round trip between sites.
inline constexpr std::uint64_t kRedialToAnswerMinNs = 100 * kNsPerMs;
inline constexpr std::uint64_t kStreamEndToRedialNs = kNsPerSecond;
// If no control connection comes back, a peer that answers on a path is asked again after this
// time. It is more than twice the time in which NCCL_IB_TIMEOUT and NCCL_IB_RETRY_CNT, as they are
// by default, end a path to a peer that is gone.
inline constexpr std::uint64_t kSignToSignNs = 5 * kNsPerSecond;
// A FENCE is acknowledged in a round trip, or in up to kStopToDrainedNs if the peer's device is
// slow. A connection that is slower is replaced, which costs little.
inline constexpr std::uint64_t kFenceToOtherWayNs = 200 * kNsPerMs;
// Doubled after each try. A network that is back is found within a second.
inline constexpr std::uint64_t kDialPauseMinNs = 10 * kNsPerMs;
inline constexpr std::uint64_t kDialPauseMaxNs = kNsPerSecond;

// ---- Handshakes.

// A peer that is stopped in the middle of a handshake counts as slow, and is waited for, but for
// five minutes only. That is half of the ten minutes after which PyTorch's watchdog ends the job,
// so our log line, which names the step and the peer, comes first.
inline constexpr std::uint64_t kHandshakeStepToAnswerNs = 300 * kNsPerSecond;
// If a device takes 3 ms for a command, 256 peers that come at once take 16 s together, so no
// handshake that moves may give way to another.
inline constexpr std::uint64_t kHalfOpenToGiveWayNs = 20 * kNsPerSecond;
// A dropped connector dials at once, and again after a second if nothing answers: ten tries.
inline constexpr std::uint64_t kLostHelloToNextNs = 10 * kNsPerSecond;
// Twice the 16 s above: only a host that is none of the peer's, or one that is stopped, is silent
// for so long. Doubled after each address.
inline constexpr std::uint64_t kHelloToNextAddressNs = 30 * kNsPerSecond;
// A datagram and its answer take less than a millisecond on a quiet host, and more than 100 ms on
// an emulated one. A peer that drops datagrams costs its first connect a second.
inline constexpr std::uint64_t kProofToPlaceNs = kNsPerSecond;
// A port that is down may have the only cable to the peer: a flap of a second or two is over by
// then. A peer that has answered once, and does not go on to answer, is waited for as long.
inline constexpr std::uint64_t kProofOfDownToPlaceNs = 3 * kNsPerSecond;
// Doubled after each datagram: seven of them in a second, so that a lost one loses no cable.
inline constexpr std::uint64_t kProofToAskAgainNs = 10 * kNsPerMs;
inline constexpr std::uint64_t kProofToAskAgainMaxNs = 640 * kNsPerMs;
// A peer that goes on to answer over one cable has answered over all that lead to it by then, and a
// lost datagram has been sent again.
inline constexpr std::uint64_t kProofToSettledNs = 100 * kNsPerMs;
// Silence may end: a firewall is opened, an address becomes valid.
inline constexpr std::uint64_t kSilenceToAskAgainNs = 60 * kNsPerSecond;
// A link that is up asks for its cables again. The answer comes after kProofOfDownToPlaceNs and a
// round trip at the latest.
inline constexpr std::uint64_t kAskCablesToNextNs = 500 * kNsPerMs;
inline constexpr std::uint64_t kAskCablesToAnswerNs = 5 * kNsPerSecond;
static_assert(kAskCablesToAnswerNs > kProofOfDownToPlaceNs);
// Four of the longest round trips between sites.
inline constexpr std::uint64_t kProbeToRoundTripNs = 2 * kNsPerSecond;
// No round trip between sites is longer: the rest is the peer's own time, which is not for timers.
inline constexpr std::uint64_t kHelloToWelcomeMaxNs = 500 * kNsPerMs;
// The longest round trip that ATTACH carries; a longer one counts as this.
inline constexpr std::uint32_t kRoundTripMaxUs = 60'000'000;

// Pinning a page takes microseconds. Each communicator waits so long once for a device that hangs.
inline constexpr std::uint64_t kSpareCallToLateNs = kNsPerSecond;
// A command takes milliseconds, and hundreds of them beside 256 peers that come at once. A thread
// that gets no processor for seconds is told of, too.
inline constexpr std::uint64_t kCallToToldNs = 5 * kNsPerSecond;

// ---- Lost paths.

// Then FENCE waits until the queue pairs are destroyed, which leaves no receive open either.
inline constexpr std::uint64_t kStopToDrainedNs = kNsPerSecond;
// Doubled after each try. While no path is up a try disturbs nothing, so the pause stays short.
inline constexpr std::uint64_t kReopenPauseMinNs = 50 * kNsPerMs;
inline constexpr std::uint64_t kReopenPauseStalledMaxNs = 400 * kNsPerMs;
inline constexpr std::uint64_t kReopenPauseMaxNs = 10 * kNsPerSecond;
// Long enough for a kernel to ask for an address three times, a second apart.
inline constexpr std::uint64_t kReopenToAnswerNs = 10 * kNsPerSecond;
// A failure of a path that has been up for so long counts as a new trouble.
inline constexpr std::uint64_t kPathUpToSteadyNs = 10 * kNsPerSecond;
// A path that owes completions and shows none, while another path to the peer does. Longer than
// NCCL_IB_TIMEOUT and NCCL_IB_RETRY_CNT, as they are by default, and than firmware hangs by itself
// now and then; NCCL_IB_TIMEOUT can make it longer.
inline constexpr std::uint64_t kSilenceToLossNs = 3 * kNsPerSecond;
// If no other path shows any either, a pause storm or a full switch may hold them all, and to leave
// gains little.
inline constexpr std::uint64_t kSilenceOfAllToLossNs = 10 * kNsPerSecond;
// The first look begins the silence, so four looks at least find a path silent.
inline constexpr std::uint64_t kSilenceLookToNextNs = 450 * kNsPerMs;
// The control thread looks once a second while nothing is due. If it comes later, the rest counts
// as this process's own pause.
inline constexpr std::uint64_t kSilenceLookCountsMaxNs = 1100 * kNsPerMs;
// A tier that works is up before the next one begins, and a dead tier holds up nobody.
inline constexpr std::uint64_t kTierToNextNs = 50 * kNsPerMs;
inline constexpr std::uint64_t kBesideLookToNextNs = 100 * kNsPerMs;
// A look is two commands to the device. Events are faster; this is for what no event tells.
inline constexpr std::uint64_t kPortLookToNextNs = 100 * kNsPerMs;
// A look lists the host's devices. Doubled after each: a card that is back is found soon, and one
// that stays away costs little.
inline constexpr std::uint64_t kCardLookToNextMinNs = 50 * kNsPerMs;
inline constexpr std::uint64_t kCardLookToNextMaxNs = 2 * kNsPerSecond;

// ---- Closing.

// NCCL's abort waits for this under a mutex of the process.
inline constexpr std::uint64_t kRevokeToCutNs = 500 * kNsPerMs;
// The fence of a path that is left takes a round trip, and must be over before the link is cut.
inline constexpr std::uint64_t kRevokeToLeftNs = kRevokeToCutNs / 2;
// An abort takes back many regions in a row: the second peer that is silent costs nothing more.
inline constexpr std::uint64_t kCutToPatienceNs = kNsPerSecond;
inline constexpr std::uint64_t kCloseToAnnouncedNs = kNsPerSecond;
inline constexpr std::uint64_t kByeToCutNs = kNsPerSecond;
inline constexpr std::uint64_t kContextCloseToCutNs = kNsPerSecond;

// ---- Paths over other hosts.

// A host on the way naps for at most 0.1 s, and its counts take a round trip.
inline constexpr std::uint64_t kRelayWorkToCountNs = 2 * kNsPerSecond;
inline constexpr std::uint64_t kRelayLookToNextNs = 500 * kNsPerMs;
// A neighbour may come up later than the first message.
inline constexpr std::uint64_t kStallToNoRouteNs = 2 * kNsPerSecond;
// With NCCL_MESH_JOB the processes of the hosts between may begin later than ours: communicators
// come up one after the other. Or NCCL_MESH_PATH_TIMEOUT if that is less.
inline constexpr std::uint64_t kStallToNobodyNs = 10 * kNsPerSecond;
// Doubled each time, and up to half of it longer by chance, so that hosts that ask one another do
// not go on in step. The shortest one again if nothing was asked for 10 s.
inline constexpr std::uint64_t kNeighboursPauseMinNs = 50 * kNsPerMs;
inline constexpr std::uint64_t kNeighboursPauseMaxNs = kNsPerSecond;
inline constexpr std::uint64_t kNeighboursToForgottenNs = 10 * kNsPerSecond;
// Answers come within a round trip. Then our ports take none any more.
inline constexpr std::uint64_t kNeighboursToAnswerNs = 2 * kNsPerSecond;
// A host that has answered may have ended since. It is asked again while there is no way.
inline constexpr std::uint64_t kNeighbourKnownNs = 60 * kNsPerSecond;
// Datagrams are counted by the second: only so many are looked at, and so many answered.
inline constexpr std::uint64_t kNeighbourBudgetNs = kNsPerSecond;
// Or a third of NCCL_MESH_PATH_TIMEOUT if that is less: there must be time for another try.
inline constexpr std::uint64_t kRelaySilenceToDoubtNs = 2 * kNsPerSecond;
inline constexpr std::uint64_t kAskPeersToAnswerNs = 5 * kNsPerSecond;
// Doubled each time, and the shortest one again if the host was not asked for 10 s.
inline constexpr std::uint64_t kAskPeersPauseMinNs = 50 * kNsPerMs;
inline constexpr std::uint64_t kAskPeersPauseMaxNs = kNsPerSecond;
inline constexpr std::uint64_t kAskPeersToForgottenNs = 10 * kNsPerSecond;
// A path that has carried for longer begins with an empty list of hosts that failed.
inline constexpr std::uint64_t kHostFailedToForgottenNs = 60 * kNsPerSecond;
// A nap is also at most 1/64 of the pause that it prolongs.
inline constexpr std::uint64_t kRelayNapMinNs = 50'000;
inline constexpr std::uint64_t kRelayNapMaxNs = 100 * kNsPerMs;
// The thread of a chain whose asker is lost may nap once more before it counts for the last time.
inline constexpr std::uint64_t kAskerLostToPartedNs = 2 * kRelayNapMaxNs;
inline constexpr std::uint64_t kPartLookToNextNs = 5 * kNsPerMs;
// The delay that a host on the way adds, beside what it stores (the model, perf/README).
inline constexpr std::uint64_t kRelayHostDelayNs = 1200;

// ---- One-shot all-reduce.

// NCCL's service thread is held meanwhile, and an abort waits for it. Members come to this point
// within a round of NCCL's bootstrap.
inline constexpr std::uint64_t kOneShotConnectToGiveUpNs = 10 * kNsPerSecond;
inline constexpr std::uint64_t kOneShotLookToNextNs = 100'000;

// ---- Threads at rest.

inline constexpr int kControlIdleWaitMs = 1000;
inline constexpr int kControlBusyWaitMs = 1;
// A look at one of many links takes 2 us, because its memory is in no cache: a hundredth of this.
inline constexpr std::uint64_t kSweepPerLinkNs = 200'000;
// The naps of a poller that dozes: doubled each time, so a poller is away for about twice the pause
// at most. Callers poll its loops meanwhile.
inline constexpr std::uint64_t kPollerNapMinNs = 50'000;
inline constexpr std::uint64_t kPollerNapMaxNs = kNsPerSecond;
// A thread that waits for its CPU for so long shares it with one that does not yield: a slice of
// the kernel's scheduler has 0.7 ms or more.
inline constexpr std::uint64_t kLostCpuNs = kNsPerMs / 2;
// A poller that lost its CPU leaves its loops to their callers for that long. Then it spins without
// its loops, and takes them back if it keeps its CPU for some slices: a hundredth of a core.
inline constexpr std::uint64_t kPollerStandBackNs = kNsPerSecond;
inline constexpr std::uint64_t kPollerProbeNs = 10 * kNsPerMs;
// Longer than the pauses between the tasks of a start.
inline constexpr std::uint64_t kPoolIdleToEndNs = 200 * kNsPerMs;
// Doubled after each sleep.
inline constexpr long kYieldingSleepMinNs = 50'000;
inline constexpr long kYieldingSleepMaxNs = 1'000'000;

// ---- What is told.

// Below the control thread's second, so that no pass is left out.
inline constexpr std::uint64_t kRequestLookToNextNs = 900 * kNsPerMs;
// The control thread comes by every second; five missed looks are no load of this host.
inline constexpr std::uint64_t kLookToPausedNs = 5 * kNsPerSecond;
inline constexpr std::uint64_t kRequestOpenToShownNs = kNsPerSecond;
// 600 samples a minute, so six of them decide a minute's p99.
inline constexpr std::uint64_t kTimedLookToNextNs = 100 * kNsPerMs;
// Longer than a round trip over a cable. Ten times a second it is 2 ms of processor time at most.
inline constexpr std::uint64_t kTimedPostToNapNs = 200'000;
inline constexpr std::uint64_t kTimedNapMinNs = kNsPerMs;  // the control thread waits whole ones
inline constexpr std::uint64_t kLogBudgetWindowNs = 10 * kNsPerSecond;
inline constexpr int kStatsPeriodSeconds = 10;
inline constexpr int kStatsPeriodMaxSeconds = 3600;
inline constexpr int kExitToLastPageMs = 1000;

// ---- Units of others.

inline constexpr std::uint64_t kAckTimerUnitNs = 4096;  // InfiniBand specification, 9.7.6.1.3

}  // namespace mesh

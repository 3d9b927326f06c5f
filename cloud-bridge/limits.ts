import { z } from 'zod'
import { upstreamLimitFields } from '../core/answer/upstream/limit-table.ts'
import { nonNegative, positive, whole } from '../core/kit/base/setting-kinds.ts'

/**
 * What protects the bridge from its clients. Each limit has a default that no correct client reaches, and is set by
 * `brim bridge run --limit <name>=<number>`. docs/limits.md is generated from this table.
 */
export const BridgeLimits = z.strictObject({
  apiAnswers: whole(1, 128).describe(
    "answers to one request to the bridge's OpenAI API, prompts times `n`; a request for more gets status 400",
  ),
  apiBodyBytes: whole(1_024, 8 * 2 ** 20).describe(
    "size of a request to the bridge's OpenAI API, in bytes; a larger one gets status 400",
  ),
  apiPromptBytes: whole(1_024, 2 ** 20).describe(
    'size of a prompt, or of the messages of a conversation as JSON, in bytes; a larger one gets status 400, as does one that the context of the model cannot hold',
  ),
  connectionsPerNetwork: whole(1, 1_024).describe(
    'connections to each listener from one IPv4 address or IPv6 /64; beyond it the one that has waited longest for its next request is closed, or the new one. Loopback and trusted proxies are exempt; WebSockets through a proxy count for their clients',
  ),
  eventStreams: whole(1, 1_024).describe(
    'event streams that all clients together have open, each with up to 0.25 MB that its reader has not read. One API key, or one address without a key, has a quarter of them; a further one gets status 429',
  ),
  expansionAttempts: whole(1, 3).describe("jobs that try to expand one sketch; then the bridge's model writes what is missing"),
  expansionDeviceWaitS: nonNegative(3).describe('seconds for which sketches wait while no device is connected that expands them'),
  expansionJobsPerDevice: whole(1, 1).describe('jobs that a device may hold for it to get sketches to expand'),
  expansionsPerJob: z.int().min(1).max(64).default(4).describe('sketches of like lengths that a device expands together'),
  expansionS: positive(60).describe(
    "seconds for which devices expand a sketch, at most; then the bridge's model writes what is missing",
  ),
  httpConnections: whole(1, 4_096).describe('HTTP and data-plane connections; beyond it, as for `connectionsPerNetwork`'),
  mqttConnections: whole(1, 16_384).describe(
    'connections to the MQTT broker in this process; beyond it, as for `connectionsPerNetwork`',
  ),
  deviceAnswersPerMinute: whole(1, 120).describe(
    "answers per minute that an enrolled device may ask the bridge's models for; each answer of a request counts, and more get status 429",
  ),
  deviceJobBytesPerDay: whole(1_024, 2 ** 30).describe(
    'job events and results stored for one device in a day (UTC), in bytes; beyond it the device gets no jobs until the next day',
  ),
  deviceLogBytes: whole(1_024, 256 * 1_024).describe(
    "log lines held in memory for one device, in bytes; beyond it the device's oldest lines are dropped",
  ),
  deviceLogsBytes: whole(1_024, 64 * 2 ** 20).describe(
    'log lines held in memory for all devices, in bytes; beyond it the devices with most lines lose their oldest',
  ),
  deviceStatesPerMinute: whole(1, 60).describe(
    'changes of its state that one device may make; beyond it only its latest state counts, as soon as the rate allows',
  ),
  deviceTelemetryBytes: whole(1_024, 64 * 2 ** 20).describe(
    "telemetry stored for one device, in bytes; beyond it the device's oldest samples are deleted",
  ),
  jobAttemptBytes: whole(1_024, 4 * 2 ** 20).describe(
    'events stored for one attempt at a job, in bytes; a further piece of its answer ends the job as REJECTED',
  ),
  telemetrySampleBytes: whole(1_024, 16 * 1_024).describe(
    'size of a telemetry sample, in bytes; a larger one is ignored and reported to the device on `faults`',
  ),
  unenrolledDevices: whole(0, 10_000).describe(
    'devices that the bridge registers; beyond it devices that are not enrolled are ignored',
  ),
  auditChanges: whole(1, 1_000_000).describe(
    'lines of the audit log about tokens, keys and devices, 200 bytes each; the oldest are deleted',
  ),
  auditRefusals: whole(1, 100_000).describe(
    'lines of the audit log about refused requests; those of a caller and action within a minute are one line',
  ),
  auditRequests: whole(1, 1_000_000).describe(
    'lines of the audit log about requests that were executed, such as job.submit; the oldest are deleted',
  ),
  failedProofsPerMinute: whole(1, 30).describe(
    'failed enrolments or logins of devices per minute from one IPv4 address or IPv6 /64; more get status 429. A real token, and a valid signature, are not refused for the failures of others',
  ),
  keyRequestsPerMinute: whole(1, 6_000).describe(
    'requests per minute of an API key without a quota of its own, each answer of a request counted; more get status 429',
  ),
  mqttBurstS: z
    .number()
    .min(1)
    .default(5)
    .describe('seconds for which a client may save up its MQTT rates, to send that much at once'),
  mqttBytesPerS: whole(1_024, 2 ** 20).describe(
    'bytes per second that an MQTT client sends; one that sends faster is read later',
  ),
  mqttConnectsPerMinute: whole(1, 60).describe(
    'connections per minute under one MQTT client id; further ones are refused (CONNACK 3) until the minute is over',
  ),
  mqttConnectsPerS: whole(1, 500).describe(
    'MQTT connections per second of all clients together, fewer while the bridge is busy; further ones take turns by network',
  ),
  mqttConnectWaitS: nonNegative(4).describe(
    'seconds for which an MQTT connection waits for its turn; one that would wait longer is refused (CONNACK 3)',
  ),
  mqttPacketBytes: whole(1_024, 256 * 1_024).describe('size of an MQTT packet, in bytes; a larger one ends its connection'),
  mqttPacketsPerS: whole(1, 200).describe('MQTT packets per second that a client sends; one that sends faster is read later'),
  mqttRetainedBytes: whole(1_024, 64 * 2 ** 20).describe(
    'memory for retained MQTT messages, in bytes; a message beyond it ends the connection of its client',
  ),
  mqttRetainedMessageBytes: whole(1_024, 16 * 1_024).describe(
    'size of one retained MQTT message, in bytes; a larger one ends the connection of its client',
  ),
  mqttSubscribesPerS: whole(1, 5).describe(
    'SUBSCRIBE and UNSUBSCRIBE packets per second of an MQTT client; one that sends faster is read later',
  ),
  mqttSubscriptions: whole(1, 100).describe('subscriptions of an MQTT client; further ones are refused in the SUBACK'),
  mqttUnreadBytes: whole(65_536, 4 * 2 ** 20).describe(
    'bytes sent to an MQTT client that it has not read; more end its connection',
  ),
  deviceKvPercent: z
    .int()
    .min(1)
    .max(100)
    .default(75)
    .describe('share of the KV memory that one device may fill, in percent; beyond it its sessions are refused or fail'),
  deviceSessions: whole(1, 64).describe('HAT sessions of one device; another one is refused'),
  answerGraceS: nonNegative(60).describe(
    'seconds for which a client can ask for the rest of a streamed answer, after its connection or its bridge has ended',
  ),
  detachedAnswers: whole(0, 1_024).describe(
    'streamed answers that are kept after their connections have ended; beyond it the oldest are deleted',
  ),
  rolloutSoakS: nonNegative(120).describe(
    'seconds after the success of a device in which its loss counts as a failure of the rollout; the first group and the rollout end after them',
  ),
  sketchS: positive(60).describe(
    "seconds for the bridge's model to foresee the length of an answer, and again to write a sketch; then it writes the answer in full",
  ),
  waitingExpansionsPerDevice: whole(0, 2).describe(
    'sketches that plans let wait for a device, for each device that expands; beyond it answers are written in full; at most twice as many wait',
  ),
  waitingAnswers: whole(1, 512).describe(
    "answers that wait for their first step by the bridge's model, shared evenly among the clients that want more; one that gets no place gets status 429",
  ),
  uploadBytes: whole(2 ** 20, 64 * 2 ** 30).describe(
    'size of all uploads of bundles and releases that are not published yet, in bytes; a further piece gets status 507',
  ),
  ...upstreamLimitFields(
    'upstream',
    {
      AnswerBytes: 4 * 2 ** 20,
      FirstTokenS: 100,
      IdleS: 60,
      Requests: 64,
      Retries: 3,
      TotalS: 3_600,
    },
    { server: 'an upstream', failure: 'the request fails', waiting: 'further ones wait' },
  ),
  upstreamQueue: whole(0, 1_000).describe(
    'requests that wait for `upstreamRequests`, in order of arrival; a further one gets status 429',
  ),
})
export type BridgeLimits = z.infer<typeof BridgeLimits>

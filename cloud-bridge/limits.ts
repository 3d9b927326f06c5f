import { z } from 'zod'
import { upstreamLimitFields } from '../core/answer/upstream/limit-table.ts'

/**
 * What protects the bridge from its clients. Each limit has a default that no correct client reaches, and is set by
 * `brim bridge run --limit <name>=<number>`. docs/limits.md is generated from this table.
 */
export const BridgeLimits = z.strictObject({
  apiAnswers: z
    .int()
    .min(1)
    .default(128)
    .describe("answers to one request to the bridge's OpenAI API, prompts times `n`; a request for more gets status 400"),
  apiBodyBytes: z
    .int()
    .min(1_024)
    .default(8 * 2 ** 20)
    .describe("size of a request to the bridge's OpenAI API, in bytes; a larger one gets status 400"),
  apiPromptBytes: z
    .int()
    .min(1_024)
    .default(2 ** 20)
    .describe(
      'size of a prompt, or of the messages of a conversation as JSON, in bytes; a larger one gets status 400, as does one that the context of the model cannot hold',
    ),
  apiPromptMessages: z.int().min(1).default(4_096).describe('messages of a conversation; one with more gets status 400'),
  connectionsPerNetwork: z
    .int()
    .min(1)
    .default(1_024)
    .describe(
      'connections to each listener from one IPv4 address or IPv6 /64; beyond it the one that has waited longest for its next request is closed, or the new one. Loopback and trusted proxies are exempt; WebSockets through a proxy count for their clients',
    ),
  eventStreams: z
    .int()
    .min(1)
    .default(1_024)
    .describe(
      'event streams that all clients together have open, each with up to 0.25 MB that its reader has not read; a further one gets status 429',
    ),
  eventStreamsPerClient: z
    .int()
    .min(1)
    .default(256)
    .describe('event streams that one API key, or one address without a key, has open; a further one gets status 429'),
  expandedSentenceChars: z
    .int()
    .min(64)
    .default(4_096)
    .describe('text of one expanded sentence, in characters; a longer one counts as missing'),
  expansionAcceptS: z
    .number()
    .positive()
    .default(5)
    .describe('seconds for a device to accept sketches; then another device gets them'),
  expansionAttempts: z
    .int()
    .min(1)
    .default(3)
    .describe("jobs that try to expand one sketch; then the bridge's model writes what is missing"),
  expansionDeviceWaitS: z
    .number()
    .min(0)
    .default(3)
    .describe('seconds for which sketches wait while no device is connected that expands them'),
  expansionJobsPerDevice: z.int().min(1).default(1).describe('jobs that a device may hold for it to get sketches to expand'),
  expansionsPerJob: z.int().min(1).max(64).default(4).describe('sketches of like lengths that a device expands together'),
  expansionStepS: z
    .number()
    .positive()
    .default(45)
    .describe('seconds without a sign of life of a device that expands; then another device gets what is missing'),
  expansionS: z
    .number()
    .positive()
    .default(60)
    .describe("seconds for which devices expand a sketch, at most; then the bridge's model writes what is missing"),
  firstRequestS: z
    .number()
    .positive()
    .default(15)
    .describe(
      'seconds from opening a connection to its CONNECT or the headers of its first request, TLS included; then it is closed',
    ),
  httpConnections: z
    .int()
    .min(1)
    .default(4_096)
    .describe('HTTP and data-plane connections; beyond it, as for `connectionsPerNetwork`'),
  httpJsonValues: z
    .int()
    .min(16_384)
    .default(262_144)
    .describe('values in the JSON of a request; one with more gets status 400, as does one that is nested deeper than 64 levels'),
  httpRequestS: z.number().positive().default(60).describe('seconds for a complete HTTP request, body included; then status 408'),
  httpStalledS: z
    .number()
    .positive()
    .default(120)
    .describe(
      'seconds in which an HTTP client neither sends the rest of its request nor reads what the bridge has sent; then its connection is closed',
    ),
  mqttConnections: z
    .int()
    .min(1)
    .default(16_384)
    .describe('connections to the MQTT broker in this process; beyond it, as for `connectionsPerNetwork`'),
  reservedFiles: z
    .int()
    .min(0)
    .default(128)
    .describe(
      'open files kept for databases, logs and outgoing connections; `mqttConnections` and `httpConnections` shrink where `ulimit -n` leaves fewer',
    ),
  waitingConnections: z
    .int()
    .min(1)
    .default(1_024)
    .describe(
      'connections to each listener that wait for their first or next request; beyond it the one that has waited longest is closed',
    ),
  deviceAnswersPerMinute: z
    .int()
    .min(1)
    .default(120)
    .describe(
      "answers per minute that an enrolled device may ask the bridge's models for; each answer of a request counts, and more get status 429",
    ),
  deviceJobBytesPerDay: z
    .int()
    .min(1_024)
    .default(2 ** 30)
    .describe(
      'job events and results stored for one device in a day (UTC), in bytes; beyond it the device gets no jobs until the next day',
    ),
  deviceLogBytes: z
    .int()
    .min(1_024)
    .default(256 * 1_024)
    .describe("log lines held in memory for one device, in bytes; beyond it the device's oldest lines are dropped"),
  deviceLogsBytes: z
    .int()
    .min(1_024)
    .default(64 * 2 ** 20)
    .describe('log lines held in memory for all devices, in bytes; beyond it the devices with most lines lose their oldest'),
  deviceStatesPerMinute: z
    .int()
    .min(1)
    .default(60)
    .describe(
      'changes of its state that one device may make; beyond it only its latest state counts, as soon as the rate allows',
    ),
  deviceTelemetryBytes: z
    .int()
    .min(1_024)
    .default(64 * 2 ** 20)
    .describe("telemetry stored for one device, in bytes; beyond it the device's oldest samples are deleted"),
  jobAttemptBytes: z
    .int()
    .min(1_024)
    .default(4 * 2 ** 20)
    .describe('events stored for one attempt at a job, in bytes; a further piece of its answer ends the job as REJECTED'),
  telemetrySampleBytes: z
    .int()
    .min(1_024)
    .default(16 * 1_024)
    .describe('size of a telemetry sample, in bytes; a larger one is ignored and reported to the device on `faults`'),
  unenrolledDevices: z
    .int()
    .min(0)
    .default(10_000)
    .describe('devices that the bridge registers; beyond it devices that are not enrolled are ignored'),
  auditChanges: z
    .int()
    .min(1)
    .default(1_000_000)
    .describe('lines of the audit log about tokens, keys and devices, 200 bytes each; the oldest are deleted'),
  auditRefusals: z
    .int()
    .min(1)
    .default(100_000)
    .describe('lines of the audit log about refused requests; those of a caller and action within a minute are one line'),
  auditRequests: z
    .int()
    .min(1)
    .default(1_000_000)
    .describe('lines of the audit log about requests that were executed, such as job.submit; the oldest are deleted'),
  failedProofsPerMinute: z
    .int()
    .min(1)
    .default(30)
    .describe(
      'failed enrolments or logins of devices per minute from one IPv4 address or IPv6 /64; more get status 429. A real token, and a valid signature, are not refused for the failures of others',
    ),
  keyRequestsPerMinute: z
    .int()
    .min(1)
    .default(6_000)
    .describe(
      'requests per minute of an API key without a quota of its own, each answer of a request counted; more get status 429',
    ),
  mqttBurstS: z
    .number()
    .min(1)
    .default(5)
    .describe('seconds for which a client may save up its MQTT rates, to send that much at once'),
  mqttBytesPerS: z
    .int()
    .min(1_024)
    .default(2 ** 20)
    .describe('bytes per second that an MQTT client sends; one that sends faster is read later'),
  mqttConnectsPerMinute: z
    .int()
    .min(1)
    .default(60)
    .describe('connections per minute under one MQTT client id; further ones are refused (CONNACK 3) until the minute is over'),
  mqttConnectsPerS: z
    .int()
    .min(1)
    .default(500)
    .describe(
      'MQTT connections per second of all clients together, fewer while the bridge is busy; further ones take turns by network',
    ),
  mqttConnectWaitS: z
    .number()
    .min(0)
    .default(4)
    .describe('seconds for which an MQTT connection waits for its turn; one that would wait longer is refused (CONNACK 3)'),
  mqttOtherPacketBytes: z
    .int()
    .min(1_024)
    .default(4_096)
    .describe('size of an MQTT packet that publishes nothing, such as CONNECT, in bytes; a larger one ends its connection'),
  mqttPacketBytes: z
    .int()
    .min(1_024)
    .default(256 * 1_024)
    .describe('size of an MQTT packet, in bytes; a larger one ends its connection'),
  mqttPacketsPerS: z
    .int()
    .min(1)
    .default(200)
    .describe('MQTT packets per second that a client sends; one that sends faster is read later'),
  mqttQos2Inflight: z
    .int()
    .min(1)
    .default(16)
    .describe('incomplete QoS 2 messages of an MQTT client; one more ends its connection'),
  mqttRetainedBytes: z
    .int()
    .min(1_024)
    .default(64 * 2 ** 20)
    .describe('memory for retained MQTT messages, in bytes; a message beyond it ends the connection of its client'),
  mqttRetainedMessageBytes: z
    .int()
    .min(1_024)
    .default(16 * 1_024)
    .describe('size of one retained MQTT message, in bytes; a larger one ends the connection of its client'),
  mqttSubscribesPerS: z
    .int()
    .min(1)
    .default(5)
    .describe('SUBSCRIBE and UNSUBSCRIBE packets per second of an MQTT client; one that sends faster is read later'),
  mqttSubscriptions: z
    .int()
    .min(1)
    .default(100)
    .describe('subscriptions of an MQTT client; further ones are refused in the SUBACK'),
  mqttUnreadBytes: z
    .int()
    .min(65_536)
    .default(4 * 2 ** 20)
    .describe('bytes sent to an MQTT client that it has not read; more end its connection'),
  deviceKvPercent: z
    .int()
    .min(1)
    .max(100)
    .default(75)
    .describe('share of the KV memory that one device may fill, in percent; beyond it its sessions are refused or fail'),
  deviceSessions: z.int().min(1).default(64).describe('HAT sessions of one device; another one is refused'),
  deviceMemoryWaitS: z
    .number()
    .positive()
    .default(10)
    .describe(
      'seconds for which rows of a HAT session wait for KV memory that others hold; then the session fails, and its device replays it at a bridge with memory',
    ),
  answerGraceS: z
    .number()
    .min(0)
    .default(60)
    .describe(
      'seconds for which a client can ask for the rest of a streamed answer, after its connection or its bridge has ended',
    ),
  detachedAnswers: z
    .int()
    .min(0)
    .default(1_024)
    .describe('streamed answers that are kept after their connections have ended; beyond it the oldest are deleted'),
  rolloutSoakS: z
    .number()
    .min(0)
    .default(120)
    .describe(
      'seconds after the success of a device in which its loss counts as a failure of the rollout; the first group and the rollout end after them',
    ),
  sketchPromptBytes: z
    .int()
    .min(1_024)
    .default(32 * 1_024)
    .describe('conversation that devices get with a sketch, as JSON in bytes; the answer to a larger one is written in full'),
  sketchS: z
    .number()
    .positive()
    .default(60)
    .describe(
      "seconds for the bridge's model to foresee the length of an answer, and again to write a sketch; then it writes the answer in full",
    ),
  waitingExpansionsPerDevice: z
    .int()
    .min(0)
    .default(2)
    .describe('sketches that wait for a device, for each device that expands; beyond it answers are written in full'),
  waitingAnswers: z
    .int()
    .min(1)
    .default(512)
    .describe(
      "answers that wait for their first step by the bridge's model, shared evenly among the clients that want more; one that gets no place gets status 429",
    ),
  sessionRepeats: z
    .int()
    .min(0)
    .default(64)
    .describe('replies that one HAT session sends again for repeated frames; another repetition ends the session'),
  uploadBytes: z
    .int()
    .min(2 ** 20)
    .default(64 * 2 ** 30)
    .describe(
      'size of all uploads of bundles and releases that are not published yet, in bytes; a further piece gets status 507',
    ),
  ...upstreamLimitFields(
    'upstream',
    {
      AnswerBytes: 4 * 2 ** 20,
      ConnectS: 5,
      EventChars: 2 ** 20,
      FirstTokenS: 100,
      IdleS: 60,
      Requests: 64,
      Retries: 3,
      TotalS: 3_600,
    },
    { server: 'the upstream', failure: 'the answer fails', waiting: 'further ones wait' },
  ),
  upstreamQueue: z
    .int()
    .min(0)
    .default(1_000)
    .describe('requests that wait for `upstreamRequests`, in order of arrival; a further one gets status 429'),
  upstreamRetryAfterS: z
    .number()
    .min(0)
    .default(10)
    .describe('seconds for which the upstream may ask the bridge to wait (`Retry-After`); beyond it the client is asked instead'),
})
export type BridgeLimits = z.infer<typeof BridgeLimits>

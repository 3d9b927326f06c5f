import { z } from 'zod'
import { readerRates } from '../../kit/base/reader-rates.ts'
import { Evidence, Nonce } from './attestation.ts'
import { DeviceComputing } from './computing.ts'
import { conditionSections } from './device-condition.ts'
import { figure } from './figure.ts'
import { wires } from './frame.ts'
import { Id } from './id.ts'
import { v } from './version.ts'

/** JSON messages. Schemas drop unknown fields, so either side can be upgraded first; `v` rejects newer versions. */
const id = Id.meta({ title: 'id' })
const session = z
  .string()
  .regex(/^[0-9a-f]{16}$/)
  .meta({ title: '16 hex digits' })
/** Random, so that it reveals nothing about the prefix. */
const handle = z
  .string()
  .regex(/^[0-9a-f]{32}$/)
  .meta({ title: '32 hex digits' })
const sha256 = z
  .string()
  .regex(/^[0-9a-f]{64}$/)
  .meta({ title: 'SHA-256 in hex' })
/** The agent that has published a state, among those with the same device id. */
const instance = z
  .string()
  .regex(/^[0-9a-f]{16}$/)
  .meta({ title: '16 hex digits' })
const modelId = sha256.describe('Model id of its bundle.')
/** Announced by a bridge without a bundle: no device has this model, so none asks it for a session. */
export const noModelId = '0'.repeat(64)
const birth = z.int().min(1)
const at = z.iso.datetime().describe("UTC, by the sender's clock.")

/** The states of the Homie convention. Only the broker publishes `lost`, as the will. */
export const deviceStates = ['init', 'ready', 'draining', 'disconnected', 'lost'] as const

/** Retained on device/<id>/state. The will carries the same `birth`, so that a late will cannot replace a newer state. */
export const DeviceState = z.object({
  v,
  state: z.enum(deviceStates).describe('Only the broker publishes `lost`, as the will.'),
  birth: birth.describe('Start counter of the agent, persisted.'),
  at,
  agent: z.string().max(64).optional().describe('Version of the agent.'),
  modelId: modelId.optional(),
  computing: DeviceComputing.optional().catch(undefined).describe('What computes its models, and why.'),
  jobs: z.array(z.string().max(64)).max(64).optional().describe('Kinds of jobs that the device supports.'),
  clockIsSet: z.boolean().optional().describe("False: the device's clock is not set, so `at` is meaningless."),
  instance: instance.optional().describe('Distinguishes agents under the same device id; persisted. The will has it too.'),
  connection: z.int().min(1).optional().describe('Number of this connection to the broker since the start of the agent.'),
  heartbeatS: z
    .number()
    .positive()
    .optional()
    .describe('Heartbeat interval: the state is republished at least this often. Absent: it is not republished.'),
  ownTopics: z
    .array(id)
    .max(64)
    .optional()
    .describe(
      'Bridges with which the device exchanges jobs, commands and their outcomes on topics of their own (`jobs/<bridge>`) only.',
    ),
})
export type DeviceState = z.infer<typeof DeviceState>

const measured = figure(z.number().min(0))
/**
 * On device/<id>/telemetry, not retained: a device's measurements of itself, an object per source. Null or absent: not
 * measured yet. It contains nothing about prompts or answers.
 */
export const DeviceTelemetry = z.object({
  v,
  at: at.describe('Time of the measurement.'),
  birth: birth.describe("As in the device's state."),
  clockIsSet: z
    .boolean()
    .optional()
    .describe("False: the device's clock was not set, so `at` is meaningless and only the order of messages is known."),
  replayed: z.boolean().optional().describe('True: measured while no bridge was reachable, sent later.'),
  seq: z
    .int()
    .min(1)
    .optional()
    .describe('Number of this sample, which later deltas of this start name as their `base`. Absent: no delta follows.'),
  link: figure(z.object({ upBytesPerS: measured, downBytesPerS: measured, rttMs: measured, bridge: id })).describe(
    'Link to the bridge on this broker (HAT: β_up, β_down); null while the data plane is not connected.',
  ),
  speed: z
    .object({ prefillTokensPerS: measured, draftStepMs: measured.describe("HAT's γ.") })
    .describe("Speed of the device's own parts of the model."),
  ...conditionSections,
})
export type DeviceTelemetry = z.infer<typeof DeviceTelemetry>

/**
 * On device/<id>/telemetry too, if every bridge there announces `telemetryDeltas`: a sample as its difference from an earlier
 * complete one (telemetry-delta.ts).
 */
export const TelemetryDelta = z.object({
  v,
  at: at.describe('Time of the measurement.'),
  birth: birth.describe("As in the device's state."),
  base: z.int().min(1).describe('Of a delta: `seq` of the complete sample, of the same `birth`, that it is a difference from.'),
  set: z
    .record(z.string(), z.unknown())
    .describe(
      'Of a delta: the fields that differ, to be merged into that sample. `device.uptimeS` also grows by the time between the two.',
    ),
})
export type TelemetryDelta = z.infer<typeof TelemetryDelta>

/** Retained on bridge/<id>/state: the address and the load of a bridge's data plane. */
export const BridgeState = z.object({
  v,
  state: z.enum(['ready', 'draining', 'disconnected', 'lost']).describe('Only the broker publishes `lost`, as the will.'),
  birth: birth.describe('Start counter of the bridge, persisted.'),
  at,
  bridge: z.string().max(64).optional().describe('Version of the bridge.'),
  modelId: sha256
    .optional()
    .describe(
      'Model id of its bundle; zeros only: it serves none. Absent: it serves several, so that each device finds its own.',
    ),
  modelIds: z.array(sha256).max(64).readonly().optional().describe('Model ids of its bundles, where it serves several.'),
  data: z
    .url({ protocol: /^wss?$/ })
    .optional()
    .describe('WebSocket URL of the data plane.'),
  sessions: z.int().min(0).optional().describe('Number of open HAT sessions.'),
  devices: z
    .int()
    .min(0)
    .optional()
    .describe('Number of devices that the bridge knows. After an outage they spread their attempts to reconnect by it.'),
  telemetryDeltas: z
    .boolean()
    .optional()
    .describe(
      'True: the bridge rebuilds samples from deltas, and counts telemetry as a heartbeat. Absent: it needs complete samples, without absent figures.',
    ),
  ownTopics: z
    .boolean()
    .optional()
    .describe(
      'True: the bridge publishes and subscribes topics of its own too (`jobs/<bridge>`), which other bridges may not use.',
    ),
  answerTtftMs: z
    .object({
      weight: z.number().min(0).describe('Answers that it stands for, older ones counting less.'),
      quantiles: z
        .array(z.number().min(0))
        .max(64)
        .readonly()
        .describe('Ascending: 0 to 0.9 by 0.05, 0.95 to 0.99 by 0.01, 0.995, 0.999 and 1.'),
    })
    .optional()
    .describe(
      "Times from a request to the first token of an answer of the bridge's own model, in ms, without the way to the device: by it, devices plan when to ask (DiSCo). Absent: it has made none.",
    ),
  answerMsPerToken: z
    .number()
    .positive()
    .optional()
    .describe(
      'Time between two tokens of such an answer, in ms: with `answerTtftMs`, when it will end. Absent: it has made none.',
    ),
})
export type BridgeState = z.infer<typeof BridgeState>

/**
 * On device/<id>/faults, not retained: a bridge could not read a message of the device. At most a few a minute per topic.
 */
export const MessageFault = z.object({
  v,
  bridge: id.describe('Bridge that could not read it.'),
  leaf: z.string().max(64).describe("Last level of the message's topic, such as `telemetry`."),
  reason: z.string().max(500).describe('Field and problem; never the value.'),
  at,
  needsFullSample: z
    .boolean()
    .optional()
    .describe('True: the bridge lacks the sample that a delta builds on; the device sends a complete one.'),
})
export type MessageFault = z.infer<typeof MessageFault>

/** Path of the data plane's WebSocket on the bridge's HTTP port. */
export const dataPath = '/v1/data'

/**
 * Control messages on the data plane: JSON text frames beside the binary ones. They contain no text, token ids or prompt
 * lengths.
 */
export const ToBridge = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('hello'),
    v,
    device: id,
    birth: birth.describe("As in the device's state."),
    nonce: Nonce.optional().describe(
      "Asks the bridge for `evidence` about SHA-512 of `brim bridge 1`, a line feed, these bytes, and the public key of the bridge's TLS certificate (SPKI, DER).",
    ),
  }),
  z.object({
    type: z.literal('open'),
    request: z.int().min(0).describe('Number of the request; the reply repeats it.'),
    modelId,
    resume: z
      .object({ handle, length: z.int().min(1) })
      .optional()
      .describe('Resumes the first `length` positions of a prefix that the bridge has cached for this device.'),
    wire: z.enum(wires).optional().describe('Encoding of the states that the device will send; every frame repeats it.'),
    session: session
      .optional()
      .describe(
        'Chosen by the device, at random; its epoch is 0. Frames may follow at once, which are dropped if the bridge refuses. Only to a bridge whose `welcome` has `early`.',
      ),
    traceparent: z
      .string()
      .max(128)
      .optional()
      .describe('W3C Trace Context of the request that the session answers; absent: it is not traced.'),
  }),
  z
    .object({ type: z.literal('rates'), upBytesPerS: z.number().positive(), prefillTokensPerS: z.number().positive() })
    .describe('Measured upload rate and prefill speed of the device; sent again when one of them has moved.'),
  z
    .object({
      type: z.literal('reading'),
      session,
      tokensPerS: z
        .number()
        .min(readerRates.min)
        .max(readerRates.max)
        .describe('Rate at which the reader of the answer takes tokens.'),
      undelivered: z.number().min(0).max(1e9).describe('Tokens of the answer that the reader has not read yet.'),
    })
    .describe('The reader of an answer, before a verification; only to a bridge whose `opened` has `reading`.'),
  z.object({
    type: z.literal('close'),
    session,
    keep: z.int().min(1).optional().describe('Asks the bridge to cache this many positions for a later `open`.'),
  }),
])
export type ToBridge = z.infer<typeof ToBridge>

export const ToDevice = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('welcome'),
    v,
    bridge: id,
    modelId,
    probeBytes: z
      .int()
      .min(0)
      .optional()
      .describe('Largest probe that the bridge answers, in bytes. Absent: an older bridge, which rejects probes.'),
    early: z
      .boolean()
      .optional()
      .describe('True: a device may choose the id of a session, and send its frames with `open`. Absent: an older bridge.'),
    codings: z
      .array(z.string().max(64))
      .max(64)
      .optional()
      .describe(
        'Ids of the tables that the bridge codes rows by. A device with the same may send coded frames, whose replies are coded too.',
      ),
    evidence: Evidence.optional()
      .catch(undefined)
      .describe(
        'Reply to a `nonce`. Absent: the bridge is older, has no TLS, or runs in no confidential virtual machine; a device that requires attestation opens no session.',
      ),
  }),
  z.object({
    type: z.literal('opened'),
    request: z.int().min(0),
    session,
    epoch: z.int().min(0),
    held: z.int().min(0).describe('Positions that the session starts with; 0 if nothing was resumed.'),
    moved: z.boolean().describe('The session has taken over the resumed prefix: its handle becomes void when the session ends.'),
    chunkTokens: z.int().min(1).describe('X: prompt tokens per frame.'),
    frameTokens: z.int().min(1).describe('Maximum rows per frame.'),
    draftLimit: z.int().min(0).describe('Maximum tokens drafted per round.'),
    reading: z.boolean().optional().describe('True: the bridge accepts `reading`. Absent: an older bridge, which rejects it.'),
  }),
  z
    .object({ type: z.literal('advice'), session, chunkTokens: z.int().min(1) })
    .describe('New chunk size, from the next frame of a prompt on.'),
  z
    .object({
      type: z.literal('kept'),
      session,
      handle: handle
        .optional()
        .describe('Handle of the cached prefix, valid for a limited time. Absent: the prefix was not cached.'),
    })
    .describe('Reply to a `close` with `keep`.'),
  z.object({
    type: z.literal('refused'),
    request: z.int().min(0).describe('Number of the rejected `open`; 0: `hello`, or a message that the bridge could not read.'),
    code: z.string().describe('Error code, see docs/errors.md.'),
    message: z.string(),
    retryAfterMs: z.int().optional(),
  }),
])
export type ToDevice = z.infer<typeof ToDevice>

/** Bytes of a device's queued frames beyond which the bridge pauses reading from it. */
export const readAheadBytes = 8 * 2 ** 20
/** Added to the size of each queued frame in that count. */
export const frameCostBytes = 1024

/** Session ids: 16 hex digits in JSON, u64 in the frame header. */
export const sessionHex = (session: bigint) => session.toString(16).padStart(16, '0')
export const sessionBits = (hex: string) => BigInt(`0x${hex}`)

/** WebSocket close codes; the close reason is an error code (docs/errors.md). */
export const closeCodes = {
  /** The bridge is stopping. */
  goingAway: 1001,
  invalid: 4400,
  /** The device has no valid login, or it has expired. */
  unauthorized: 4401,
  /** No hello in time. */
  silent: 4408,
  /** The device has connected again. */
  replaced: 4409,
  version: 4426,
} as const

import { z } from 'zod'
import { conditionSections } from './device-condition.ts'
import { wires } from './frame.ts'
import { idPattern } from './topics.ts'
import { v } from './version.ts'

/** JSON messages. Wire schemas drop unknown fields, so either side can be upgraded first; `v` refuses what is too new. */
const id = z.string().regex(idPattern).meta({ title: 'id' })
const session = z
  .string()
  .regex(/^[0-9a-f]{16}$/)
  .meta({ title: '16 hex digits' })
/** Random: it says nothing of what it stands for. */
const handle = z
  .string()
  .regex(/^[0-9a-f]{32}$/)
  .meta({ title: '32 hex digits' })
const sha256 = z
  .string()
  .regex(/^[0-9a-f]{64}$/)
  .meta({ title: 'SHA-256 in hex' })
const modelId = sha256.describe('Of the bundle that it holds a part of.')
const birth = z.int().min(1)
const at = z.iso.datetime().describe("UTC, by the sender's clock.")

/** Homie's words. `lost` is only ever published by the broker, as the will. */
export const deviceStates = ['init', 'ready', 'draining', 'disconnected', 'lost'] as const

/** Retained on device/<id>/state. The will carries the same `birth`, so that a late will cannot bury a newer birth. */
export const DeviceState = z.object({
  v,
  state: z.enum(deviceStates).describe('`lost` is only ever said by the broker, as the will.'),
  birth: birth.describe('Persisted counter: one more at every start of the agent.'),
  at,
  agent: z.string().optional().describe('Version of the agent.'),
  modelId: modelId.optional(),
  jobs: z.array(z.string().max(64)).max(64).optional().describe('Kinds of jobs that it can do.'),
  clockIsSet: z.boolean().optional().describe('False: nobody has told the device the time yet, so `at` is none.'),
  connection: z.int().min(1).optional().describe('One more whenever this start of the agent connects to this broker.'),
  heartbeatS: z
    .number()
    .positive()
    .optional()
    .describe('The same is said again at least so often, but for `at`; absent: it is not.'),
})
export type DeviceState = z.infer<typeof DeviceState>

const measured = z.number().min(0).nullable()
/**
 * On device/<id>/telemetry, not retained: what a device measures of itself, an object per source, null where it has not
 * been measured yet. Nothing here tells what is asked.
 */
export const DeviceTelemetry = z.object({
  v,
  at: at.describe('When it was measured.'),
  birth: birth.describe("That of the device's state."),
  clockIsSet: z
    .boolean()
    .optional()
    .describe('False: nobody had told the device the time, so `at` is none; only the order of messages is known.'),
  replayed: z.boolean().optional().describe('True: measured while no bridge heard, said now.'),
  link: z
    .object({ upBytesPerS: measured, downBytesPerS: measured, rttMs: measured, bridge: id })
    .nullable()
    .describe('To the bridge of this control plane (HAT: β_up, β_down); null while there is no connection.'),
  speed: z
    .object({ prefillTokensPerS: measured, draftStepMs: measured.describe("HAT's γ.") })
    .describe("Of the device's own parts of the model."),
  ...conditionSections,
})
export type DeviceTelemetry = z.infer<typeof DeviceTelemetry>

/** Retained on bridge/<id>/state: where the data plane is and how loaded it is. */
export const BridgeState = z.object({
  v,
  state: z.enum(['ready', 'draining', 'disconnected', 'lost']).describe('`lost` is only ever said by the broker, as the will.'),
  birth: birth.describe('Persisted counter: one more at every start of the bridge.'),
  at,
  bridge: z.string().optional().describe('Version of the bridge.'),
  modelId: modelId.optional(),
  data: z
    .url({ protocol: /^wss?$/ })
    .optional()
    .describe('WebSocket URL of the data plane.'),
  sessions: z.int().min(0).optional().describe('That it holds.'),
})
export type BridgeState = z.infer<typeof BridgeState>

/**
 * On device/<id>/faults, not retained: a bridge could not read what the device said. At most a few a minute for each leaf.
 */
export const MessageFault = z.object({
  v,
  bridge: id.describe('Which could not read it.'),
  leaf: z.string().max(64).describe('Last level of the topic that it stood on, as `telemetry`.'),
  reason: z.string().max(500).describe('Where in the message, and what is wrong there; never what stood there.'),
  at,
})
export type MessageFault = z.infer<typeof MessageFault>

/** Of the data plane's WebSocket, on the bridge's HTTP port. */
export const dataPath = '/v1/data'

/**
 * Control messages on the data plane: JSON text frames beside the binary ones. Nothing here tells what is asked: no
 * text, no token ids, no prompt length.
 */
export const ToBridge = z.discriminatedUnion('type', [
  z.object({ type: z.literal('hello'), v, device: id, birth: birth.describe("That of the device's state.") }),
  z.object({
    type: z.literal('open'),
    request: z.int().min(0).describe('Number of the question: the answer repeats it.'),
    modelId,
    resume: z
      .object({ handle, length: z.int().min(1) })
      .optional()
      .describe('Begins with the first `length` positions of what a session of this device left behind.'),
    wire: z.enum(wires).optional().describe('How the device will send its states; every frame says it too.'),
  }),
  z
    .object({ type: z.literal('rates'), upBytesPerS: z.number().positive(), prefillTokensPerS: z.number().positive() })
    .describe("What the device's link and its own prefill manage; said again when it has moved."),
  z.object({
    type: z.literal('close'),
    session,
    keep: z.int().min(1).optional().describe('The bridge may hold on to so many positions, for a later `open`.'),
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
      .describe('Largest probe that it answers; absent: an older bridge, to which a probe is a malformed frame.'),
  }),
  z.object({
    type: z.literal('opened'),
    request: z.int().min(0),
    session,
    epoch: z.int().min(0),
    held: z.int().min(0).describe('Positions that the session begins with; 0 where nothing was, or could be, resumed.'),
    moved: z.boolean().describe("What was resumed has become this session's: the handle leads nowhere any more once it ends."),
    chunkTokens: z.int().min(1).describe('X: tokens of a prompt per frame.'),
    frameTokens: z.int().min(1).describe('Most rows of one frame.'),
    draftLimit: z.int().min(0).describe('Most tokens drafted per round.'),
  }),
  z
    .object({ type: z.literal('advice'), session, chunkTokens: z.int().min(1) })
    .describe('Of another size, from the next frame of a prompt on.'),
  z
    .object({
      type: z.literal('kept'),
      session,
      handle: handle.optional().describe('What was held stands ready under this name for a while. Absent: it does not.'),
    })
    .describe('Answers a `close` with `keep`.'),
  z.object({
    type: z.literal('refused'),
    request: z.int().min(0).describe('Of the `open` that is refused; 0: of `hello`, or of a message that cannot be read.'),
    code: z.string().describe('docs/errors.md.'),
    message: z.string(),
    retryAfterMs: z.int().optional(),
  }),
])
export type ToDevice = z.infer<typeof ToDevice>

/** Of a device's frames that wait to be computed; a bridge that has more does not read from it for a while. */
export const readAheadBytes = 8 * 2 ** 20
/** What a waiting frame counts beyond its bytes. */
export const frameCostBytes = 1024

/** 16 hex digits ↔ the header's u64. */
export const sessionHex = (session: bigint) => session.toString(16).padStart(16, '0')
export const sessionBits = (hex: string) => BigInt(`0x${hex}`)

/** WebSocket close codes of ours; the close reason is the error's code (docs/errors.md). */
export const closeCodes = {
  /** The bridge stops: open a session elsewhere, or here again later. */
  goingAway: 1001,
  invalid: 4400,
  /** No valid session of that device, or not any more. */
  unauthorized: 4401,
  /** No hello in time. */
  silent: 4408,
  /** The device has connected again. */
  replaced: 4409,
  version: 4426,
} as const

import { z } from 'zod'
import { conditionSections } from './device-condition.ts'
import { wires } from './frame.ts'
import { idPattern } from './topics.ts'

/** JSON messages. Wire schemas drop unknown fields, so either side can be upgraded first; `v` refuses what is too new. */
const v = z.literal(1)
const id = z.string().regex(idPattern)
const session = z.string().regex(/^[0-9a-f]{16}$/)
/** Random: it says nothing of what it stands for. */
const handle = z.string().regex(/^[0-9a-f]{32}$/)
const sha256 = z.string().regex(/^[0-9a-f]{64}$/)

/** Homie's words. `lost` is only ever published by the broker, as the will. */
export const deviceStates = ['init', 'ready', 'draining', 'disconnected', 'lost'] as const

/** Retained on device/<id>/state. The will carries the same `birth`, so that a late will cannot bury a newer birth. */
export const DeviceState = z.object({
  v,
  state: z.enum(deviceStates),
  /** Persisted counter: one more at every start of the agent. */
  birth: z.int().min(1),
  at: z.iso.datetime(),
  agent: z.string().optional(),
  modelId: sha256.optional(),
  /** Kinds of jobs that it can do (core/protocol/jobs.ts). */
  jobs: z.array(z.string().max(64)).max(64).optional(),
  /** False: nobody has told the device the time yet, so `at` is none. */
  clockIsSet: z.boolean().optional(),
  /** One more whenever this start of the agent connects to this broker. */
  connection: z.int().min(1).optional(),
  /** The same is said again at least so often, but for `at`; absent: it is not. */
  heartbeatS: z.number().positive().optional(),
})
export type DeviceState = z.infer<typeof DeviceState>

const measured = z.number().min(0).nullable()
/**
 * On device/<id>/telemetry, not retained: what a device measures of itself, an object per source, null where it has not
 * been measured yet. Nothing here tells what is asked.
 */
export const DeviceTelemetry = z.object({
  v,
  /** When it was measured. */
  at: z.iso.datetime(),
  birth: z.int().min(1),
  /** False: nobody had told the device the time, so `at` is none; only the order of messages is known. */
  clockIsSet: z.boolean().optional(),
  /** True: measured while no bridge heard, said now. */
  replayed: z.boolean().optional(),
  /** To the bridge of this control plane (HAT: β_up, β_down); null while there is no connection. */
  link: z.object({ upBytesPerS: measured, downBytesPerS: measured, rttMs: measured, bridge: id }).nullable(),
  /** Of the device's own parts; a draft step is HAT's γ. */
  speed: z.object({ prefillTokensPerS: measured, draftStepMs: measured }),
  ...conditionSections,
})
export type DeviceTelemetry = z.infer<typeof DeviceTelemetry>

/** Retained on bridge/<id>/state: where the data plane is and how loaded it is. */
export const BridgeState = z.object({
  v,
  state: z.enum(['ready', 'draining', 'disconnected', 'lost']),
  birth: z.int().min(1),
  at: z.iso.datetime(),
  bridge: z.string().optional(),
  modelId: sha256.optional(),
  /** WebSocket URL of the data plane. */
  data: z.string().optional(),
  sessions: z.int().min(0).optional(),
})
export type BridgeState = z.infer<typeof BridgeState>

/**
 * Control messages on the data plane: JSON text frames beside the binary ones. Nothing here tells what is asked: no
 * text, no token ids, no prompt length.
 */
export const ToBridge = z.discriminatedUnion('type', [
  z.object({ type: z.literal('hello'), v, device: id, birth: z.int().min(1) }),
  z.object({
    type: z.literal('open'),
    request: z.int().min(0),
    modelId: sha256,
    /** Begins with the first `length` positions of what a session of this device left behind. */
    resume: z.object({ handle, length: z.int().min(1) }).optional(),
    /** How the device will send its states; every frame says it too. */
    wire: z.enum(wires).optional(),
  }),
  /** What the device's link and its own prefill manage; said again when it has moved. Rates tell nothing of what is asked. */
  z.object({ type: z.literal('rates'), upBytesPerS: z.number().positive(), prefillTokensPerS: z.number().positive() }),
  /** With `keep` the bridge may hold on to so many positions, for a later `open`. */
  z.object({ type: z.literal('close'), session, keep: z.int().min(1).optional() }),
])
export type ToBridge = z.infer<typeof ToBridge>

export const ToDevice = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('welcome'),
    v,
    bridge: id,
    modelId: sha256,
    /** Largest probe that it answers; absent: an older bridge, to which a probe is a malformed frame. */
    probeBytes: z.int().min(0).optional(),
  }),
  z.object({
    type: z.literal('opened'),
    request: z.int().min(0),
    session,
    epoch: z.int().min(0),
    /** Positions that the session begins with; 0 where nothing was, or could be, resumed. */
    held: z.int().min(0),
    /** What was resumed has become this session's: the handle leads nowhere any more once it ends. */
    moved: z.boolean(),
    /** X: tokens of a prompt per frame. */
    chunkTokens: z.int().min(1),
    /** Most rows of one frame. */
    frameTokens: z.int().min(1),
    /** Most tokens drafted per round. */
    draftLimit: z.int().min(0),
  }),
  /** From the next frame of a prompt on. */
  z.object({ type: z.literal('advice'), session, chunkTokens: z.int().min(1) }),
  /** Answers a `close` with `keep`: what was held stands ready under this name for a while. Absent: it does not. */
  z.object({ type: z.literal('kept'), session, handle: handle.optional() }),
  z.object({
    type: z.literal('refused'),
    /** Of the `open` that is refused; 0 answers `hello`. */
    request: z.int().min(0),
    code: z.string(),
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

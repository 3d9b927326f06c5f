import { z } from 'zod'
import { CommandReply, DeviceCommand, DeviceLog } from './commands.ts'
import { bridgeStateDelivery, type Delivery, deviceDelivery, homeDelivery } from './delivery.ts'
import { DrainRequest, HomeState } from './home.ts'
import { JobAck, JobEvent, ToJobDevice } from './jobs.ts'
import { BridgeState, DeviceState, DeviceTelemetry, MessageFault, TelemetryDelta, ToBridge, ToDevice } from './messages.ts'
import { type DeviceTopic, type HomeLeaf, homeLeaves } from './topics.ts'

/** A message type. docs/topics.md and docs/asyncapi.json are generated from it, and a test checks recorded traffic against it. */
export interface Message {
  readonly name: string
  readonly summary: string
  /** A union discriminated by `type` is documented as one message for each type, another one by the titles of its members. */
  readonly schema: z.ZodType
  /** At least one for each type of a union. */
  readonly examples: readonly Readonly<Record<string, unknown>>[]
}

export interface Channel extends Delivery {
  /** The MQTT topic; a name in braces is replaced by an id. */
  readonly address: string
  readonly message: Message
}

const at = '2026-05-04T09:30:00.125Z'
const modelId = '5f0c6d1e'.repeat(8)
const attempt = { v: 1, bridge: 'bridge-1', job: '6b1f22d4-17', attempt: 1 }
const command = { v: 1, bridge: 'bridge-1', id: '9d4f0b6c21e87a35', expiresAt: '2026-05-04T09:30:30.125Z' }
const session = '00c5a1f09b3e77d2'
const handle = '7d0e'.repeat(8)

const deviceMessages: Readonly<Record<DeviceTopic, Message>> = {
  state: {
    name: 'DeviceState',
    summary: 'Whether a device is connected, and what it supports.',
    schema: DeviceState,
    examples: [
      {
        v: 1,
        state: 'ready',
        birth: 12,
        at,
        agent: '0.1.0',
        modelId,
        jobs: ['hat.generate', 'hat.verify', 'profile'],
        computing: { llm: { provider: 'cpu', reason: 'no GPU driver was found (Vulkan)' } },
      },
      { v: 1, state: 'lost', birth: 12, at },
    ],
  },
  telemetry: {
    name: 'DeviceTelemetry',
    summary:
      'Measurements of a device: link, speed and condition. A complete sample, or a delta: its difference from an earlier one.',
    schema: z.union([TelemetryDelta.meta({ title: 'TelemetryDelta' }), DeviceTelemetry.meta({ title: 'DeviceTelemetry' })]),
    examples: [
      {
        v: 1,
        at,
        birth: 12,
        seq: 5,
        link: { upBytesPerS: 1_250_000, downBytesPerS: 2_400_000, rttMs: 38.2, bridge: 'bridge-1' },
        speed: { prefillTokensPerS: 910, draftStepMs: 4.1 },
        memory: {
          totalBytes: 65_893_527_552,
          freeBytes: 41_200_000_000,
          swapTotalBytes: 0,
          swapFreeBytes: 0,
          gpuUsedBytes: 2_100_000_000,
        },
        temperatures: { hottestC: 52.5, zonesC: { 'cpu-thermal': 52.5, 'gpu-thermal': 47 } },
        power: {
          railsW: { VDD_GPU_SOC: 4.8, VDD_CPU_CV: 1.6 },
          totalW: 11.2,
          scope: 'module',
          jPerToken: 0.84,
          busyW: 14.1,
          idleW: 9.8,
        },
        battery: null,
        errors: [{ code: 'LINK_LOST', at, count: 2 }],
      },
      {
        v: 1,
        at: '2026-05-04T09:30:10.125Z',
        birth: 12,
        base: 5,
        set: { temperatures: { hottestC: 53, zonesC: { 'cpu-thermal': 53 } }, power: { totalW: 11.4 } },
      },
    ],
  },
  jobs: {
    name: 'ToJobDevice',
    summary: 'Starts or cancels an attempt of a job. Both messages may be repeated.',
    schema: ToJobDevice,
    examples: [
      { ...attempt, type: 'run', kind: 'slm.generate', input: { prompt: 'Is there a good hotel in Paris?', maxTokens: 64 } },
      { ...attempt, type: 'cancel' },
    ],
  },
  events: {
    name: 'JobEvent',
    summary: 'Progress or outcome of an attempt. The device resends it until the bridge acknowledges it.',
    schema: JobEvent,
    examples: [
      { ...attempt, n: 1, at, type: 'accepted' },
      { ...attempt, n: 2, at, type: 'running' },
      { ...attempt, n: 3, at, type: 'text', text: 'Yes: the', from: 0 },
      { ...attempt, n: 4, at, type: 'succeeded', result: { text: 'Yes: the Meurice.', tokens: 6, finishReason: 'stop' } },
      {
        ...attempt,
        n: 2,
        at,
        type: 'failed',
        failure: 'refused',
        error: { code: 'REQUEST_INVALID', message: 'this device does not support pice.expand; it supports profile' },
      },
      { ...attempt, n: 3, at, type: 'canceled' },
      { ...attempt, n: 3, at, type: 'progress', doneBytes: 1_048_576, totalBytes: 8_912_004 },
      {
        ...attempt,
        n: 3,
        at,
        type: 'sentence',
        sketch: 0,
        sentence: 4,
        candidate: 0,
        model: 'slm-deep',
        text: 'Water the plant once a week.',
        tokens: 8,
        meanLog2Probability: -0.62,
        end: 'stop',
      },
    ],
  },
  acks: {
    name: 'JobAck',
    summary: 'The bridge has stored all events of the attempt up to `n`, or has no use for them.',
    schema: JobAck,
    examples: [{ ...attempt, n: 4 }],
  },
  commands: {
    name: 'Command',
    summary: 'A command of an operator. The bridge resends it until the device replies or it expires; the device runs it once.',
    schema: DeviceCommand,
    examples: [
      { ...command, type: 'drain' },
      { ...command, type: 'undrain' },
      { ...command, type: 'logs', level: 'debug', forS: 60 },
    ],
  },
  replies: {
    name: 'CommandReply',
    summary: 'Outcome of a command. A repeated command gets the same reply.',
    schema: CommandReply,
    examples: [
      { v: 1, bridge: 'bridge-1', id: command.id, at, outcome: 'done' },
      {
        v: 1,
        bridge: 'bridge-1',
        id: command.id,
        at,
        outcome: 'refused',
        reason: 'this agent does not support the command "reboot", or not with these fields',
      },
    ],
  },
  log: {
    name: 'DeviceLog',
    summary:
      "A line of the device's log: warnings and errors always, other levels on request. It contains no prompts or answers.",
    schema: DeviceLog,
    examples: [
      {
        v: 1,
        at,
        birth: 12,
        level: 'warn',
        component: 'link',
        message: 'bridge unreachable, retrying',
        fields: { broker: 'mqtt://10.0.0.5:1883', code: 'BRIDGE_UNREACHABLE' },
        dropped: 0,
      },
    ],
  },
  faults: {
    name: 'MessageFault',
    summary: 'The bridge could not read a message of the device. At most a few are sent each minute for each topic.',
    schema: MessageFault,
    examples: [
      { v: 1, bridge: 'bridge-1', leaf: 'telemetry', reason: '"birth": Invalid input: expected number, received string', at },
    ],
  },
}

const bridgeState: Message = {
  name: 'BridgeState',
  summary: 'The address of the data plane of a bridge, and its load.',
  schema: BridgeState,
  examples: [
    {
      v: 1,
      state: 'ready',
      birth: 3,
      at,
      bridge: '0.1.0',
      modelId,
      data: 'ws://10.0.0.5:7070/v1/data',
      sessions: 2,
      telemetryDeltas: true,
      answerTtftMs: {
        weight: 4,
        quantiles: [
          ...[180, 182, 184, 186, 188, 190, 195, 200, 205, 210, 215, 220, 230, 240, 250, 260, 280, 300, 320],
          ...[350, 355, 360, 365, 370, 375, 378, 380],
        ],
      },
      answerMsPerToken: 22.5,
    },
    { v: 1, state: 'ready', birth: 4, at, modelIds: [modelId, 'a1'.repeat(32)], data: 'ws://10.0.0.5:7070/v1/data' },
    { v: 1, state: 'lost', birth: 3, at },
  ],
}

const homeMessages: Readonly<Record<HomeLeaf, Message>> = {
  home: {
    name: 'HomeState',
    summary: 'Figures of a device for other programs at the broker, of a bridge with `--home-assistant`.',
    schema: HomeState,
    examples: [
      {
        ...{ v: 1, state: 'ready', powerW: 11.2, batteryPercent: null, hottestC: 52.5, isThrottled: false, cpuPercent: 12 },
        ...{ gpuPercent: 40, upBytesPerS: 1_250_000, downBytesPerS: 2_400_000, jobs: 0, tokensPerS: 21.4, provider: 'webgpu' },
        problems: [],
      },
    ],
  },
  drain: {
    name: 'DrainRequest',
    summary: 'A program asks the bridge to send the device this command.',
    schema: DrainRequest,
    examples: [{ v: 1, type: 'drain' }],
  },
}

/** The control plane: all topics. */
export const channels: readonly Channel[] = [
  ...(Object.keys(deviceMessages) as DeviceTopic[]).map((leaf) => ({
    address: `brim/v1/{fleet}/device/{device}/${leaf}`,
    ...deviceDelivery[leaf],
    message: deviceMessages[leaf],
  })),
  { address: 'brim/v1/{fleet}/bridge/{bridge}/state', ...bridgeStateDelivery, message: bridgeState },
  ...homeLeaves.map((leaf) => ({
    address: `brim/v1/{fleet}/bridge/{bridge}/${leaf}/{device}`,
    ...homeDelivery[leaf],
    message: homeMessages[leaf],
  })),
]

/** The JSON messages of the data plane. They share one WebSocket with the binary frames (frame.ts). */
export const dataMessages: Readonly<Record<'device' | 'bridge', Message>> = {
  device: {
    name: 'ToBridge',
    summary: 'Opens and closes HAT sessions. It contains no prompts.',
    schema: ToBridge,
    examples: [
      { type: 'hello', v: 1, device: 'jetson-01', birth: 12 },
      { type: 'open', request: 1, modelId, resume: { handle, length: 40 }, wire: 'fp16' },
      { type: 'rates', upBytesPerS: 1_250_000, prefillTokensPerS: 910 },
      { type: 'reading', session, tokensPerS: 5, undelivered: 12.5 },
      { type: 'close', session, keep: 96 },
    ],
  },
  bridge: {
    name: 'ToDevice',
    summary: 'Replies, and advice on the chunk size of sessions.',
    schema: ToDevice,
    examples: [
      { type: 'welcome', v: 1, bridge: 'bridge-1', modelId, probeBytes: 32_768 },
      {
        type: 'opened',
        request: 1,
        session,
        epoch: 1,
        held: 40,
        moved: false,
        chunkTokens: 128,
        frameTokens: 512,
        draftLimit: 8,
        reading: true,
      },
      { type: 'advice', session, chunkTokens: 64 },
      { type: 'kept', session, handle },
      { type: 'refused', request: 1, code: 'SESSION_REFUSED', message: 'no memory for another session', retryAfterMs: 500 },
    ],
  },
}

import { drafterMaker } from '../../../agent/hat/create-drafter.ts'
import type { HatOptions } from '../../../agent/hat/hat-options.ts'
import { openDeviceModel } from '../../../agent/hat/open-device-model.ts'
import { answerByHat } from '../../../agent/hat/session.ts'
import { DataLink } from '../../../agent/link/data-link.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import type { Io } from '../../../core/kit/base/io.ts'
import { createLogger } from '../../../core/kit/base/logger.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import type { Sampling } from '../../../core/model/engine/sampler.ts'
import { DeviceSpeed } from '../../../core/policy/hat/device-speed.ts'
import { decodeFrame, decodeStates } from '../../../core/wire/protocol/frame.ts'
import { type StateCoders, stateCoders } from '../../../core/wire/protocol/row-coder.ts'
import { concatStates, type States, sliceStates } from '../../../core/wire/protocol/states.ts'
import { Cluster } from '../../cluster/cluster.ts'
import { laboratoryProgram as program } from '../../cluster/processes.ts'
import { type Arrival, startRelay, through } from '../../cluster/relay.ts'
import { startShapedLink } from '../../cluster/shaped-link.ts'
import { webSocketFrames } from '../../cluster/web-socket-payloads.ts'
import { memoryDisclosures } from '../hat/memory-disclosures.ts'

/** How a device sends the rows of an answer. */
export interface WireForm {
  readonly wire: 'fp16' | 'fp16c' | 'int8'
  readonly padding: boolean
  /** As `brim agent run --hat-interval`; absent: without. */
  readonly intervalMs?: number | undefined
  /** As `brim agent run --draft-threshold`; absent: drafts end where a token does not pay. */
  readonly threshold?: number | undefined
}

export interface RecordedAnswer {
  readonly tokens: readonly number[]
  readonly rounds: number
  /** Time of the first token, as those of arrivals. */
  readonly firstMs: number
  /** Time between tokens, in ms. */
  readonly tbtMs: number
  readonly bytesUp: number
  /** The rows that the bridge held at the end, those of rejected drafts included. */
  readonly rows: States
  /** What an observer of the encrypted link would see, but for the lengths of TLS's own records. */
  readonly arrivals: readonly Arrival[]
}

export interface RecordedDevice extends AsyncDisposable {
  answer(prompt: readonly number[], form: WireForm, sampling: Sampling, maxTokens: number): Promise<RecordedAnswer>
}

/** Round trip of the link, and its rate either way: a home's. */
const rttMs = 20
const bytesPerS = 2e6

/** A device in this process and a bridge in another, with a link between them that records what crosses it. */
export async function startRecordedDevice(bundle: string, io: Io): Promise<RecordedDevice> {
  const device = await openDeviceModel({ bundle, threads: 1, library: io.env.ORT_LIB, medusa: false })
  const { manifest, input, head, adapter } = device
  const logger = createLogger('silent')
  const speed = new DeviceSpeed()
  const cluster = await Cluster.create({ bundle, env: io.env, signal: io.signal })
  const bridge = await cluster.startBridge({ program })
  const direction = { rates: { intervalMs: 1_000, bytesPerS: [bytesPerS] }, delayMs: rttMs / 2, jitterMs: 0 }
  const target = Number(new URL(bridge.ready.dataUrl).port)
  const shaped = startShapedLink({ target, shape: { up: direction, down: direction }, random: seededRandom(1) })
  const relay = await cluster.attach(startRelay((await cluster.attach(shaped)).port))
  const coders = stateCoders(manifest)
  const createDrafter = drafterMaker('auto', { adapter, head: device.adapterHead, draftAhead: true })
  return {
    async answer(prompt, { wire, padding, intervalMs, threshold }, sampling, maxTokens) {
      const disclosures = memoryDisclosures(logger)
      const random = seededRandom(1)
      const link = new DataLink({
        device: 'recorded',
        birth: 1,
        reconnectMaxS: 1,
        speed,
        disclosures,
        clock: systemClock,
        random,
        logger,
      })
      link.connectTo(through(relay, bridge.ready.dataUrl))
      const options: HatOptions = {
        ...{ dims: manifest.dims, input, head, speed, createDrafter, padding, intervalMs },
        ...{ wire: wire === 'int8' ? wire : 'fp16', coders: wire === 'fp16c' ? coders : undefined },
        ...{
          prefill: 'chunked',
          prefixes: undefined,
          threshold,
          draftLimit: Number.POSITIVE_INFINITY,
          draftAhead: true,
        },
        ...{ patienceMs: 5_000, clock: systemClock },
        open: (signal, session) => link.open(manifest.modelId, signal, session),
      }
      const request = { client: '', prompt, maxTokens, sampling, eos: manifest.tokens.eos }
      const tokens: number[] = []
      let [rounds, bytesUp, firstMs, lastMs] = [0, 0, 0, 0]
      for await (const round of answerByHat(options, request, io.signal)) {
        lastMs = performance.now()
        if (tokens.length === 0) firstMs = lastMs
        tokens.push(...round.tokens)
        rounds += 1
        bytesUp = round.figures().bytesUp
      }
      await link.close()
      const { up, arrivals } = relay.connections.at(-1)!
      const rows = heldRows(Buffer.concat(up), manifest.dims.hidden, coders)
      const tbtMs = (lastMs - firstMs) / Math.max(1, tokens.length - 1)
      return { tokens, rounds, firstMs, tbtMs, bytesUp, rows, arrivals }
    },
    async [Symbol.asyncDispose]() {
      await cluster[Symbol.asyncDispose]()
      await device.close()
    },
  }
}

/** The rows that the frames up of a recorded connection leave at the bridge. */
function heldRows(up: Buffer, width: number, coders: StateCoders | undefined): States {
  let held = concatStates([], width)
  for (const { isBinary, payload } of webSocketFrames(up)) {
    if (!isBinary) continue
    const frame = decodeFrame(payload)
    if (frame.type !== 'rows') continue
    held = concatStates([sliceStates(held, 0, frame.base), decodeStates(frame, width, undefined, coders?.up)], width)
  }
  return held
}

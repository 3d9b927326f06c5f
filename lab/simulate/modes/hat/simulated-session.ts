import { ChunkAdvice, type ChunkAdviceOptions } from '../../../../core/policy/hat/chunk-advice.ts'
import type { HatConditions, UplinkAction } from '../../../../core/policy/hat/hat-steps.ts'
import { headerBytes, rowBytes, rowsBytes, type Wire } from '../../../../core/wire/protocol/frame.ts'
import type { Simulation } from '../../kernel/simulation.ts'
import type { SimulatedEngineSession } from '../../serving/engine.ts'
import type { HatDevice } from './hat-device.ts'

/** Of messages without states: opening a session, new chunk sizes. */
const messageBytes = 128

export interface SimulatedSessionOptions extends Pick<HatConditions, 'frameTokens' | 'draftLimit'> {
  readonly simulation: Simulation
  readonly device: HatDevice
  /** Rows of a cached prefix that the bridge holds. */
  readonly held: number
  /** Holds them from the beginning. */
  openSession(): SimulatedEngineSession
  /** The cloud has no memory for the rows that it got. Nothing more is called. */
  refused(): void
  readonly chunks: Omit<ChunkAdviceOptions, 'bytesPerToken'>
  /** Values of a hidden state. */
  readonly width: number
  readonly wire: Wire
  /** The radio has sent or received for so long. */
  transferred(seconds: number): void
}

/** Where the seconds of a frame and its reply went. */
export interface ExchangeTimes {
  readonly upS: number
  readonly cloudS: number
  readonly downS: number
}

/** A device's session with the cloud, over its link. Mutable. */
export class SimulatedSession {
  /** X, as the bridge has advised last. */
  chunkTokens: number
  readonly frameTokens: number
  readonly draftLimit: number
  readonly #options: SimulatedSessionOptions
  readonly #advice: ChunkAdvice
  #session: SimulatedEngineSession | undefined
  #isRefused = false
  #isClosed = false

  constructor(options: SimulatedSessionOptions) {
    this.#options = options
    this.frameTokens = options.frameTokens
    this.draftLimit = options.draftLimit
    this.#advice = new ChunkAdvice({ ...options.chunks, bytesPerToken: this.rowBytes })
    this.chunkTokens = this.#advice.tokens
  }

  /** A: bytes of a hidden state on its way up. */
  get rowBytes(): number {
    return rowBytes(this.#options.wire, this.#options.width)
  }

  get held(): number {
    return this.#options.held
  }

  get rates() {
    return this.#options.device.rates
  }

  /** The device does not wait for the bridge, and goes by the chunks that the bridge advised last. */
  open(): void {
    const { device, openSession } = this.#options
    device.report()
    this.#advice.revise(device.known)
    this.chunkTokens = this.#advice.tokens
    this.#transfer('up', messageBytes, () => {
      this.#session = openSession()
      this.#advice.revise(device.known)
      const { tokens } = this.#advice
      this.#transfer('down', messageBytes, () => {
        this.chunkTokens = tokens
      })
    })
  }

  /** @param replied its deep states have arrived */
  exchange(
    {
      from,
      to,
      returned,
      paddedRows = 0,
    }: Pick<Extract<UplinkAction, { kind: 'exchange' }>, 'from' | 'to' | 'returned' | 'paddedRows'>,
    replied: (exchange: ExchangeTimes) => void,
  ): void {
    if (this.#isClosed) return
    const { simulation, device, width, wire } = this.#options
    const rows = to - from
    const bytesUp = headerBytes + rowsBytes(wire, Math.max(rows, paddedRows), width)
    const bytesDown = headerBytes + rowsBytes(wire === 'fp16c' ? wire : 'fp16', Math.max(returned, paddedRows), width)
    const sentS = simulation.nowMs / 1_000
    // Rates that have moved travel before the frame.
    const reported = device.report()
    this.#transfer('up', bytesUp, () => {
      if (this.#isRefused) return
      const upS = simulation.nowMs / 1_000 - sentS
      device.known = reported
      const session = this.#session!
      if (from < session.contextLength) session.truncate(from)
      session.send({
        rows,
        returned,
        failed: () => {
          this.#isRefused = true
          this.#transfer('down', messageBytes, this.#options.refused)
        },
        done: (cloudS) => {
          this.#transfer('down', bytesDown, () => {
            const answeredS = simulation.nowMs / 1_000
            const isVerification = returned === rows
            device.rates.recordExchange({ bytesUp, bytesDown, sentS, answeredS, cloudS, isVerification })
            replied({ upS, cloudS, downS: answeredS - sentS - upS - cloudS })
          })
          if (this.#advice.reviseAfter({ rows, returned }, device.known)) this.#advise(this.#advice.tokens)
        },
      })
    })
  }

  /** Once. What is under way has no effect any more. */
  close(): void {
    this.#isClosed = true
    this.#transfer('up', messageBytes, () => this.#session!.close())
  }

  #advise(tokens: number): void {
    this.#transfer('down', messageBytes, () => {
      this.chunkTokens = tokens
    })
  }

  #transfer(direction: 'up' | 'down', bytes: number, arrived: () => void): void {
    const { device, transferred } = this.#options
    transferred(device.device.link.send(direction, bytes, arrived))
  }
}

import { areWorthReporting, ChunkAdvice, type ChunkAdviceOptions } from '../../../../core/policy/hat/chunk-advice.ts'
import { maySend } from '../../../../core/policy/hat/in-flight.ts'
import { headerBytes, rowBytes, type Wire } from '../../../../core/protocol/frame.ts'
import type { Simulation } from '../../kernel/simulation.ts'
import type { EngineSession } from '../../serving/engine.ts'
import type { HatDevice } from './hat-device.ts'

/** Of messages without states: opening a session, new chunk sizes. */
const messageBytes = 128

export interface UplinkOptions {
  readonly simulation: Simulation
  readonly device: HatDevice
  openSession(): EngineSession
  /** The cloud has no memory for the rows that it got. Nothing more is called. */
  refused(): void
  readonly chunks: Omit<ChunkAdviceOptions, 'bytesPerToken'>
  /** Values of a hidden state. */
  readonly width: number
  readonly wire: Wire
  /** The radio has sent or received for so long. */
  transferred(seconds: number): void
}

/** Shallow rows of positions from .. from + rows − 1. */
export interface Rows {
  readonly from: number
  readonly rows: number
  /** Rows at the end whose deep states come back. */
  readonly returned: number
  /** The frame, and its reply, are as long as those of so many rows. */
  readonly paddedRows?: number | undefined
}

/** Where the seconds of a frame and its reply went. */
export interface Exchange {
  readonly upS: number
  readonly cloudS: number
  readonly downS: number
}

/** The frames of one session, as agent/hat/uplink.ts sends them. Mutable. */
export class Uplink {
  /** X, as the bridge has advised last. */
  chunkTokens: number
  readonly #options: UplinkOptions
  readonly #advice: ChunkAdvice
  readonly #inFlight = { frames: 0, bytes: 0 }
  #session: EngineSession | undefined
  #isRefused = false
  #whenFree: (() => void) | undefined
  #isClosed = false

  constructor(options: UplinkOptions) {
    this.#options = options
    this.#advice = new ChunkAdvice({ ...options.chunks, bytesPerToken: this.rowBytes })
    this.chunkTokens = this.#advice.tokens
  }

  /** A: bytes of a hidden state on its way up. */
  get rowBytes(): number {
    return rowBytes(this.#options.wire, this.#options.width)
  }

  /** @param opened after a round trip, with the rows of a cached prefix that the bridge holds */
  open(opened: (held: number) => void): void {
    const { device, openSession } = this.#options
    this.#report()
    this.#transfer('up', messageBytes, () => {
      const session = openSession()
      this.#session = session
      this.#advice.revise(device.known)
      const { tokens } = this.#advice
      const held = session.contextLength
      this.#transfer('down', messageBytes, () => {
        this.chunkTokens = tokens
        opened(held)
      })
    })
  }

  /** Back-pressure. @param free called when a frame of `rows` rows may be sent, maybe at once */
  awaitCapacity(rows: number, free: () => void): void {
    if (maySend(this.#inFlight, rows * this.rowBytes, this.#options.device.rates)) free()
    else this.#whenFree = () => this.awaitCapacity(rows, free)
  }

  /** @param replied its deep states have arrived */
  send({ from, rows, returned, paddedRows = 0 }: Rows, replied: (exchange: Exchange) => void): void {
    if (this.#isClosed) return
    const { simulation, device, width } = this.#options
    const bytesUp = headerBytes + Math.max(rows, paddedRows) * this.rowBytes
    const bytesDown = headerBytes + Math.max(returned, paddedRows) * rowBytes('fp16', width)
    const sentS = simulation.nowMs / 1_000
    const known = this.#report()
    this.#inFlight.frames += 1
    this.#inFlight.bytes += rows * this.rowBytes
    this.#transfer('up', bytesUp, () => {
      if (this.#isRefused) return
      const upS = simulation.nowMs / 1_000 - sentS
      device.known = known
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
            device.rates.recordExchange({ bytesUp, bytesDown, sentS, answeredS, cloudS })
            this.#inFlight.frames -= 1
            this.#inFlight.bytes -= rows * this.rowBytes
            this.#takeTurn()
            replied({ upS, cloudS, downS: answeredS - sentS - upS - cloudS })
          })
          // A frame that asks for fewer rows than it brings is part of a prompt, and more may follow.
          if (rows > returned && this.#advice.revise(device.known)) this.#advise(this.#advice.tokens)
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

  /** Rates that have moved travel before the next frame. @returns those that the bridge has with it */
  #report() {
    const { device } = this.#options
    const { upBytesPerS } = device.rates
    const { prefillTokensPerS } = device.speed
    if (upBytesPerS !== undefined && prefillTokensPerS !== undefined) {
      const rates = { upBytesPerS, prefillTokensPerS }
      if (areWorthReporting(rates, device.reported)) device.reported = rates
    }
    return device.reported
  }

  #takeTurn(): void {
    const turn = this.#whenFree
    this.#whenFree = undefined
    turn?.()
  }

  #transfer(direction: 'up' | 'down', bytes: number, arrived: () => void): void {
    const { device, transferred } = this.#options
    transferred(device.device.link.send(direction, bytes, arrived))
  }
}

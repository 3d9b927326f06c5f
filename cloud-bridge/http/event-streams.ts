import type { ServerResponse } from 'node:http'
import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { repeatEvery } from '../../core/kit/base/repeat.ts'
import { openSendBuffer } from './send-buffer.ts'

/** Keeps idle streams open through proxies, and detects readers that have disconnected. */
const heartbeatMs = 15_000
/** Of each stream: enough for a megabyte per second at a round trip of 100 ms. */
const sendBufferBytes = 64 * 1024
/** For clients that are refused one stream too many. */
const retryAfterMs = 5_000

export interface EventBatch {
  /** `id`: where a reader that reconnects resumes. */
  readonly events: readonly { readonly id?: number; readonly data: unknown }[]
  /** `more`: ask again at once; `wait`: ask again after the next wake-up; `end`: the stream is complete. */
  readonly after: 'more' | 'wait' | 'end'
}

export interface EventSource {
  /** Events that are due now. Called when the reader has taken the last batch, so memory stays bounded. */
  next(): EventBatch
  /** Calls `wake` whenever there may be more events. @returns ends the subscription */
  subscribe(wake: () => void): () => void
}

/** All these events now, more after the next wake-up. */
export const batchOf = (events: readonly unknown[]): EventBatch => ({ events: events.map((data) => ({ data })), after: 'wait' })

/** Maximum numbers of streams. */
export interface EventStreamLimits {
  readonly total: number
  readonly perClient: number
}

/** The server-sent event streams that are open. */
export class EventStreams {
  readonly #open = new Set<ServerResponse>()
  /** Streams that each client has open. */
  readonly #counts = new Map<string, number>()
  /** Streams that all clients have open. */
  #count = 0
  readonly #clock: Clock
  readonly #limits: EventStreamLimits
  readonly #after: (send: () => void) => void
  readonly #sendBuffer = openSendBuffer()

  /** @param after calls what it is given once all that is stored now is safe */
  constructor(clock: Clock, limits: EventStreamLimits = unlimited, after: (send: () => void) => void = (send) => send()) {
    this.#clock = clock
    this.#after = after
    this.#limits = limits
  }

  /**
   * Counts one more stream of this client until its response has ended.
   * @throws BrimError QUOTA_EXCEEDED
   */
  claim(response: ServerResponse, client: string): void {
    const count = this.#counts.get(client) ?? 0
    if (count >= this.#limits.perClient) throw tooMany(`this client has ${count}`)
    if (this.#count >= this.#limits.total) throw tooMany(`all clients together have ${this.#count}`)
    this.#counts.set(client, count + 1)
    this.#count += 1
    response.once('close', () => {
      this.#count -= 1
      const remaining = this.#counts.get(client)! - 1
      if (remaining > 0) this.#counts.set(client, remaining)
      else this.#counts.delete(client)
    })
  }

  /** Sends the events of `source` until it ends, fails, or the reader disconnects. */
  send(response: ServerResponse, source: EventSource): void {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' })
    // Without events the reader would not learn that the stream has begun.
    response.flushHeaders()
    this.#open.add(response)
    const { socket } = response
    if (socket) this.#sendBuffer.limit(socket, sendBufferBytes)
    let isComplete = false
    const pushDue = () => {
      while (!isComplete && !response.writableNeedDrain && !response.writableEnded) {
        const { events, after } = source.next()
        isComplete = after === 'end'
        let isSent = false
        if (events.length > 0 || isComplete)
          this.#after(() => {
            for (const event of events) response.write(textOf(event))
            if (isComplete) response.end()
            isSent = true
          })
        if (after === 'wait') return
        // Its next batch is read once this one is taken.
        if (!isSent) return this.#after(push)
      }
    }
    const push = () => {
      try {
        pushDue()
      } catch {
        // A request that follows receives the error; this stream has no way to tell it.
        response.destroy()
      }
    }
    const unsubscribe = source.subscribe(push)
    let hasStalled = false
    response.on('drain', () => {
      // A slow reader with much to read has always something to drain.
      hasStalled = false
      push()
    })
    response.on('error', () => response.destroy())
    const stopHeartbeats = repeatEvery(this.#clock, heartbeatMs, () => {
      // A reader that has not read for a whole interval, although its connection is open.
      if (hasStalled && response.writableNeedDrain && socket) return void this.#sendBuffer.destroy(socket)
      hasStalled = response.writableNeedDrain
      if (!response.writableEnded && !hasStalled) response.write(': heartbeat\n\n')
    })
    response.once('close', () => {
      void stopHeartbeats()
      unsubscribe()
      this.#open.delete(response)
    })
    push()
  }

  endAll(): void {
    for (const response of this.#open) response.end()
  }
}

const unlimited: EventStreamLimits = { total: Number.POSITIVE_INFINITY, perClient: Number.POSITIVE_INFINITY }

const tooMany = (which: string) =>
  new BrimError('QUOTA_EXCEEDED', `${which} event streams open, the maximum`, {
    hint: 'close some, or raise the limit eventStreams of the bridge',
    retryAfterMs,
  })

const textOf = ({ id, data }: EventBatch['events'][number]) =>
  `${id === undefined ? '' : `id: ${id}\n`}data: ${JSON.stringify(data)}\n\n`

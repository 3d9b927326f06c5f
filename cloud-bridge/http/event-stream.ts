import type { ServerResponse } from 'node:http'

/** So that whoever watches, and whatever lies between, knows that we are there. */
const heartbeatMs = 15_000

/** What there is to say now. */
export interface Batch {
  /** `id`: where a reader that comes again may go on from. */
  readonly events: readonly { readonly id?: number; readonly data: unknown }[]
  /** There is more already; the rest comes after `wake`; nothing comes any more. */
  readonly after: 'more' | 'wait' | 'end'
}

/** All of it, and then what is to come. */
export const saying = (events: readonly unknown[]): Batch => ({ events: events.map((data) => ({ data })), after: 'wait' })

/** Server-sent events to several readers; none of them is waited for in memory. */
export class EventStreams {
  readonly #open = new Set<ServerResponse>()

  /**
   * @param next asked once the reader can take more, and after `wake`
   * @param whenGone the connection is over: once
   */
  open(response: ServerResponse, next: () => Batch, whenGone: () => void): { wake(): void } {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' })
    // Whoever watches what has not begun hears at once that it may.
    response.flushHeaders()
    this.#open.add(response)
    const beat = setInterval(() => {
      if (!response.writableEnded) response.write(': still here\n\n')
    }, heartbeatMs)
    const pushMore = () => {
      while (!response.writableEnded && !response.writableNeedDrain) {
        const { events, after } = next()
        for (const { id, data } of events)
          response.write(`${id === undefined ? '' : `id: ${id}\n`}data: ${JSON.stringify(data)}\n\n`)
        if (after === 'more') continue
        if (after === 'wait') return
        // Nothing is written behind the end, however long its reader takes for it.
        response.end()
      }
    }
    const push = () => {
      try {
        pushMore()
      } catch {
        // What it watches cannot be read: asked again, the answer says so. Whoever has brought the news is not to pay for it.
        response.destroy()
      }
    }
    response.on('drain', push)
    response.on('error', () => response.destroy())
    response.once('close', () => {
      clearInterval(beat)
      whenGone()
      this.#open.delete(response)
    })
    push()
    return { wake: push }
  }

  endAll(): void {
    for (const response of this.#open) response.end()
  }
}

import type { ServerResponse } from 'node:http'

/** So that whoever watches, and whatever lies between, knows that we are there. */
const heartbeatMs = 15_000

/** Server-sent events to several readers; none of them is waited for in memory. */
export class EventStreams {
  readonly #open = new Set<ServerResponse>()

  /**
   * @param next what there is to say now, once the reader can take it; asked again after `wake`
   * @param whenGone the reader has left, or all end
   */
  open(response: ServerResponse, next: () => readonly unknown[], whenGone: () => void): { wake(): void } {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' })
    response.flushHeaders()
    this.#open.add(response)
    const push = () => {
      if (response.writableEnded || response.writableNeedDrain) return
      try {
        for (const event of next()) response.write(`data: ${JSON.stringify(event)}\n\n`)
      } catch {
        // Whoever has brought the news is not to pay for a reader that cannot be told.
        response.destroy()
      }
    }
    const beat = setInterval(() => {
      if (!response.writableEnded) response.write(': still here\n\n')
    }, heartbeatMs)
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

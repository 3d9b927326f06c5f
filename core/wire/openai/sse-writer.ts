import { once } from 'node:events'
import type { ServerResponse } from 'node:http'

/** Server-sent events as OpenAI's API uses them, on a response that carries nothing else. */
export interface SseWriter {
  /** Sends a line that clients of OpenAI skip. */
  comment(text: string): void
  /**
   * Resolves when the client can take more, has disconnected, or is no longer waited for.
   * @param id after which a client that reconnects continues
   * @param name of the event
   */
  send(data: object, id?: string, name?: string): Promise<void>
  /** @param hasMark whether OpenAI's mark of a complete stream is sent */
  end(hasMark: boolean): void
}

/** @param signal aborted when slow clients are no longer waited for */
export function startSse(response: ServerResponse, signal: AbortSignal): SseWriter {
  response.writeHead(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-cache',
    connection: 'keep-alive',
    'x-accel-buffering': 'no',
  })
  /** Shared by all that wait: many answers may write to one response. */
  let drained: Promise<void> | undefined
  async function waitUntilDrained(): Promise<void> {
    const done = new AbortController()
    const stop = () => done.abort()
    signal.addEventListener('abort', stop)
    const events = ['drain', 'close'].map((event) => once(response, event, { signal: done.signal }))
    await Promise.race(events).catch(() => {})
    signal.removeEventListener('abort', stop)
    done.abort()
    drained = undefined
  }
  return {
    comment(text) {
      if (!response.destroyed) response.write(`: ${text}\n\n`)
    },
    async send(data, id, name) {
      const head = `${name === undefined ? '' : `event: ${name}\n`}${id === undefined ? '' : `id: ${id}\n`}`
      const event = `${head}data: ${JSON.stringify(data)}\n\n`
      if (response.destroyed || response.write(event) || signal.aborted) return
      drained ??= waitUntilDrained()
      await drained
    },
    end(hasMark) {
      if (hasMark && !response.destroyed) response.write('data: [DONE]\n\n')
      response.end()
    },
  }
}

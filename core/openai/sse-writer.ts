import { once } from 'node:events'
import type { ServerResponse } from 'node:http'

/** Server-sent events on a response that is ours alone. */
export interface EventStream {
  /** Resolves when the reader has room for more, or is gone, or nobody waits for it any more. */
  send(data: object): Promise<void>
  /** @param done whether the answer is complete: then comes OpenAI's mark for it */
  end(done: boolean): void
}

/** @param signal aborted when readers are no longer waited for */
export function startEventStream(response: ServerResponse, signal: AbortSignal): EventStream {
  response.writeHead(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-cache',
    connection: 'keep-alive',
    'x-accel-buffering': 'no',
  })
  const write = async (data: string): Promise<void> => {
    if (response.destroyed || response.write(`data: ${data}\n\n`) || signal.aborted) return
    const done = new AbortController()
    const stop = () => done.abort()
    signal.addEventListener('abort', stop)
    const events = ['drain', 'close'].map((event) => once(response, event, { signal: done.signal }))
    await Promise.race(events).catch(() => {})
    signal.removeEventListener('abort', stop)
    done.abort()
  }
  return {
    send: (data) => write(JSON.stringify(data)),
    end(done) {
      if (done && !response.destroyed) response.write('data: [DONE]\n\n')
      response.end()
    },
  }
}

import { once } from 'node:events'
import type { ServerResponse } from 'node:http'

/** Server-sent events on a response that is ours alone. */
export interface EventStream {
  /** Resolves when the reader has room for more, or is gone. */
  send(data: object): Promise<void>
  /** @param done whether the answer is complete: then comes OpenAI's mark for it */
  end(done: boolean): void
}

export function startEventStream(response: ServerResponse): EventStream {
  response.writeHead(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-cache',
    connection: 'keep-alive',
    'x-accel-buffering': 'no',
  })
  const write = async (data: string): Promise<void> => {
    if (response.destroyed || response.write(`data: ${data}\n\n`)) return
    const done = new AbortController()
    const events = ['drain', 'close'].map((event) => once(response, event, { signal: done.signal }))
    await Promise.race(events).finally(() => done.abort())
  }
  return {
    send: (data) => write(JSON.stringify(data)),
    end(done) {
      if (done && !response.destroyed) response.write('data: [DONE]\n\n')
      response.end()
    },
  }
}

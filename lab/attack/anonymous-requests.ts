import { Agent, request } from 'node:http'
import type { Flood } from './flood.ts'

const connections = 8
/** One needs no identity, one is refused, one leaves something at the bridge, one does not exist. */
const requests = [
  ['GET', '/health'],
  ['GET', '/v1/devices'],
  ['POST', '/v1/identity/nonce'],
  ['GET', '/v1/nothing'],
] as const

/** Sends requests without a key, one after the other on each of a few connections. */
export const anonymousRequests: Flood = {
  name: 'anonymous-requests',
  async run({ httpUrl }, signal) {
    const counts = { requests: 0, refused: 0, failed: 0 }
    const agent = new Agent({ keepAlive: true, maxSockets: connections })
    const attack = async () => {
      while (!signal.aborted) {
        const [method, path] = requests[counts.requests++ % requests.length]!
        const status = await send(method, httpUrl + path, agent).catch(() => undefined)
        if (status === undefined) counts.failed += 1
        else if (status >= 400) counts.refused += 1
      }
    }
    await Promise.all(Array.from({ length: connections }, attack))
    agent.destroy()
    return counts
  },
}

const send = (method: string, url: string, agent: Agent) =>
  new Promise<number | undefined>((resolve, reject) => {
    const headers = method === 'POST' ? { 'content-type': 'application/json' } : {}
    const sent = request(url, { method, agent, headers }, (response) => {
      response.resume().once('close', () => resolve(response.statusCode))
    })
    sent.once('error', reject).end(method === 'POST' ? '{}' : undefined)
  })

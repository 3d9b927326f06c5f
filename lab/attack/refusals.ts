import { Agent, request } from 'node:http'
import type { Flood } from './flood.ts'

const maxRequests = 5_000
const connections = 8
/** Just below the longest request head that Node accepts. */
const pathChars = 15_000

/** A viewer asks for what only an admin may do, with long paths: each refusal is audited. */
export const refusals: Flood = {
  name: 'refusals',
  async run({ httpUrl, apiKey = '' }, signal) {
    const counts = { requests: 0, refused: 0, limited: 0 }
    const agent = new Agent({ keepAlive: true, maxSockets: connections })
    const attack = async () => {
      while (counts.requests < maxRequests && !signal.aborted) {
        const id = String(counts.requests++).padEnd(pathChars, 'x')
        const status = await post(`${httpUrl}/v1/admin/devices/${id}/approve`, apiKey, agent).catch(() => undefined)
        if (status === 403 || status === 401) counts.refused++
        if (status === 429) counts.limited++
      }
    }
    await Promise.all(Array.from({ length: connections }, attack))
    agent.destroy()
    return counts
  },
}

const post = (url: string, key: string, agent: Agent) =>
  new Promise<number | undefined>((resolve, reject) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const sent = request(url, { method: 'POST', agent, headers }, (response) => {
      response.resume().once('end', () => resolve(response.statusCode))
    })
    sent.once('error', reject).end('{}')
  })

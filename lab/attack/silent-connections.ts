import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Flood } from './flood.ts'

const maxOpen = 2_000
const perRound = 20
const roundMs = 20

/** Opens connections to every listener and says nothing, or sends headers that never end. */
export const silentConnections: Flood = {
  name: 'silent-connections',
  async run({ mqttUrl, httpUrl }, signal) {
    const counts = { opened: 0, closed: 0 }
    const open = new Set<Socket>()
    const openOne = (url: string, bytes: string) => {
      const { hostname, port } = new URL(url)
      const socket = connect(Number(port), hostname, () => {
        if (bytes !== '') socket.write(bytes)
      })
      counts.opened += 1
      open.add(socket)
      socket.on('error', () => {})
      socket.once('close', () => {
        if (!signal.aborted) counts.closed += 1
        open.delete(socket)
      })
    }
    while (!signal.aborted) {
      for (let at = 0; at < perRound && open.size < maxOpen; at++) {
        openOne(mqttUrl, '')
        openOne(httpUrl, at % 2 === 0 ? '' : 'GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n')
      }
      await sleep(roundMs, undefined, { signal }).catch(() => {})
    }
    for (const socket of open) socket.destroy()
    return counts
  },
}

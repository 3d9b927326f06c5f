import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer as createPlain } from 'node:http'
import { createServer as createTls } from 'node:https'
import type { AddressInfo, Server } from 'node:net'
import { afterAll, expect, it } from 'vitest'
import { run } from '../../../brim.ts'
import { captureIo } from '../../support/captured-io.ts'

const pem = (name: string) => readFileSync(new URL(`../../fixtures/tls/${name}.pem`, import.meta.url))
const servers: Server[] = []
afterAll(() => {
  for (const server of servers) server.close()
})

async function hostOf(server: Server): Promise<string> {
  servers.push(server.listen(0, '127.0.0.1'))
  await once(server, 'listening')
  return `127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function errorOf(url: string): Promise<string> {
  const { io, err } = captureIo()
  expect(await run(['job', 'list', '--bridge-url', url], io)).toBe(1)
  return err()
}

it('an http: URL of a TLS port, and the reverse, are refused with the right scheme', async () => {
  const tls = createTls({ cert: pem('first.cert'), key: pem('first.key') })
  // As the bridge's listeners do.
  tls.on('tlsClientError', (_error, socket) => socket.destroy())
  const [tlsHost, plainHost] = [await hostOf(tls), await hostOf(createPlain())]
  expect(await errorOf(`http://${tlsHost}`)).toContain(`${tlsHost} speaks TLS [BRIDGE_UNREACHABLE]`)
  expect(await errorOf(`http://${tlsHost}`)).toContain(`try: use https://${tlsHost}`)
  expect(await errorOf(`https://${plainHost}`)).toContain(`try: use http://${plainHost}`)
})

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { projectRoot } from '../../core/kit/base/version.ts'
import { mqttClient } from '../support/broker.ts'
import { postJson } from '../support/post-json.ts'
import { shared } from '../support/shared.ts'
import { tempDir } from '../support/temp-dir.ts'
import { tinyBundle } from '../support/tiny-bundle.ts'

const cli = fileURLToPath(new URL('dist/brim.js', projectRoot))
const maxFiles = 400

const dir = shared(tempDir)
const bundle = shared(tinyBundle)

/** A bridge in a process of its own, whose limit of open files is low. */
async function startBridge() {
  const command = `ulimit -n ${maxFiles}; exec "$@"`
  const args = [
    'bridge',
    'run',
    '--bundle',
    bundle.path,
    '--state-dir',
    dir.path,
    '--mqtt-port',
    '0',
    '--http-port',
    '0',
    '--json',
  ]
  const env = { ...process.env, BRIM_STOP_WITH_STDIN: '1' }
  const child = spawn('bash', ['-c', command, 'bash', process.execPath, cli, ...args], { env, stdio: ['pipe', 'pipe', 'pipe'] })
  let log = ''
  child.stderr.on('data', (chunk) => {
    log += chunk
  })
  const lines = createInterface({ input: child.stdout })
  const [line] = (await once(lines, 'line')) as [string]
  const ready = JSON.parse(line) as { mqttUrl: string; httpUrl: string }
  return {
    ...ready,
    log: () => log,
    async [Symbol.asyncDispose]() {
      const ended = once(child, 'close')
      child.kill('SIGTERM')
      await ended
    },
  }
}

it('a flood of connections does not take the files that health, the store and honest devices need', async () => {
  await using bridge = await startBridge()
  expect(bridge.log()).toContain('ulimit -n')
  const honest = await mqttClient(bridge.mqttUrl, 'device-honest')
  const flood: Socket[] = []
  const openMany = (url: string, first: string) => {
    for (let at = 0; at < maxFiles; at++) {
      const socket = connect(Number(new URL(url).port), '127.0.0.1')
      socket.on('error', () => {})
      socket.write(first)
      flood.push(socket)
    }
  }
  openMany(bridge.mqttUrl, '')
  openMany(bridge.httpUrl, 'GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n')
  const job = { kind: 'slm.generate', input: { prompt: 'hello' } }
  for (let round = 0; round < 5; round++) {
    expect((await fetch(`${bridge.httpUrl}/health`)).status).toBe(200)
    const created = await postJson(`${bridge.httpUrl}/v1/jobs`, job)
    expect(await created.json()).toMatchObject({ isNew: true })
    const newcomer = await mqttClient(bridge.mqttUrl, `device-${round}`)
    await newcomer.endAsync(true)
    openMany(bridge.mqttUrl, '')
  }
  expect(honest.connected).toBe(true)
  await honest.endAsync(true)
  for (const socket of flood) socket.destroy()
})

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it } from 'vitest'
import { projectRoot } from '../../core/kit/base/version.ts'
import { isMissing } from '../support/prerequisites.ts'
import { shared } from '../support/shared.ts'
import { tempDir } from '../support/temp-dir.ts'

const address = '10.9.8.7'
// A network of this test alone: no other bridge can answer. A bridge announces itself only at an address beyond loopback.
const open = `ip link set lo up multicast on && ip address add ${address}/32 dev lo && exec "$@"`
const ownNetwork = ['unshare', '--map-root-user', '--net', 'sh', '-c', open, 'sh']
const networkOf = ({ pid }: ChildProcess) => ['nsenter', '--preserve-credentials', '-t', String(pid), '--user', '--net']

const [unshare = '', ...withoutNetwork] = [...ownNetwork, 'true']
const skips = isMissing('network namespaces (unshare, ip)', spawnSync(unshare, withoutNetwork).status === 0)

const cli = fileURLToPath(new URL('dist/brim.js', projectRoot))
const dir = shared(tempDir)
const started: ChildProcess[] = []
afterAll(() => {
  for (const child of started) child.kill('SIGKILL')
})

function start([program = '', ...words]: readonly string[], noun: 'agent' | 'bridge', ...options: string[]) {
  const args = [process.execPath, cli, noun, 'run', '--state-dir', join(dir.path, noun), ...options, '--json']
  const child = spawn(program, [...words, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  started.push(child)
  const log: Record<string, unknown>[] = []
  createInterface({ input: child.stderr }).on('line', (line) => log.push(JSON.parse(line)))
  async function ready(): Promise<Record<string, string>> {
    const exited = once(child, 'exit').then(([code]) => Promise.reject(new Error(`exited with ${code}: ${JSON.stringify(log)}`)))
    const [line] = (await Promise.race([once(createInterface({ input: child.stdout }), 'line'), exited])) as [string]
    return JSON.parse(line)
  }
  return { child, ready: ready(), log }
}

describe.skipIf(skips)('brim bridge run --announce', () => {
  it('is found by an agent of the network that knows no bridge, which tells how to enrol', async () => {
    const own = ['--id', 'cellar', '--fleet', 'wine', '--mqtt-port', '0', '--http-port', '0']
    const upstream = ['--upstream', 'http://127.0.0.1:9', '--upstream-model', 'none']
    const bridge = start(ownNetwork, 'bridge', ...own, ...upstream, '--host', address, '--plaintext', '--announce')
    const { httpUrl } = await bridge.ready
    const agent = start(networkOf(bridge.child), 'agent', '--id', 'jetson-01', '--fleet', 'wine', '--api-port', '0')
    await agent.ready
    const found = () => agent.log.filter(({ msg }) => msg === 'bridge found in this network, not used')
    await expect.poll(found).toEqual([
      expect.objectContaining({
        id: 'cellar',
        fleet: 'wine',
        url: `${httpUrl}/`,
        why: expect.stringContaining('not enrolled'),
        next: expect.stringContaining('brim agent enroll --id jetson-01'),
      }),
    ])
  })
})

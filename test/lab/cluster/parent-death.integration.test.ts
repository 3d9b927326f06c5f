import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterEach, expect, it } from 'vitest'
import { projectRoot } from '../../../core/kit/base/version.ts'
import { endingWithParent } from '../../../lab/cluster/ending-with-parent.ts'
import { buildTextBundle } from '../../support/agent-world.ts'
import { mosquittoMissing } from '../../support/broker.ts'
import { tempDir } from '../../support/temp-dir.ts'

const moduleOf = (name: string) => fileURLToPath(new URL(`dist/lab/cluster/${name}.js`, projectRoot))

/** The processes of a lab, started by a process of its own that then only waits. */
async function startLab(script: string): Promise<{ readonly lab: ChildProcess; readonly pids: readonly number[] }> {
  const lab = spawn(process.execPath, ['--input-type=module', '-e', `${script}\nsetInterval(() => {}, 1_000)`], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [line] = (await once(createInterface({ input: lab.stdout! }), 'line')) as [string]
  const pids = JSON.parse(line) as number[]
  left.push(...pids)
  return { lab, pids }
}

const isAlive = (pid: number) => existsSync(`/proc/${pid}`) && !/^State:\s*Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))

const left: number[] = []
afterEach(() => {
  for (const pid of left.splice(0)) if (isAlive(pid)) process.kill(pid, 'SIGKILL')
})

const isLinux = process.platform === 'linux'

it.skipIf(!isLinux)('bridges and agents end when the process that started them is killed, even suspended ones', async () => {
  using dir = tempDir()
  const bundle = await buildTextBundle(dir.path)
  const { lab, pids } = await startLab(`
    import { Cluster } from ${JSON.stringify(moduleOf('cluster'))}
    const cluster = await Cluster.create(${JSON.stringify({ bundle, folder: dir.path, env: {} })})
    const bridge = await cluster.startBridge()
    const agent = await cluster.startAgent({ id: 'device', bridges: [bridge.ready.mqttUrl] })
    console.log(JSON.stringify([bridge.pid, agent.pid]))`)
  expect(pids.map(isAlive)).toEqual([true, true])
  if (endingWithParent().length > 0) process.kill(pids[0]!, 'SIGSTOP')
  lab.kill('SIGKILL')
  await expect.poll(() => pids.map(isAlive), { timeout: 10_000 }).toEqual([false, false])
})

it.skipIf(mosquittoMissing() || endingWithParent().length === 0)('mosquitto ends with it too', async () => {
  const { lab, pids } = await startLab(`
    import { startMosquitto } from ${JSON.stringify(moduleOf('mosquitto'))}
    const broker = await startMosquitto({ guarded: false })
    console.log(JSON.stringify([broker.pid]))`)
  lab.kill('SIGKILL')
  await expect.poll(() => pids.map(isAlive), { timeout: 10_000 }).toEqual([false])
})

import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const bootScript = fileURLToPath(new URL('../jetson/boot-systemd', import.meta.url))
const namespaces = ['--mount', '--pid', '--net', '--ipc', '--uts', '--cgroup']

const env = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LANG: 'C.UTF-8' }

/**
 * Whether systemd can be booted in namespaces of its own: as root, on a kernel that allows them. Where not, the reason is printed.
 * That is no failure under CI=true: many containers forbid it.
 */
export function canBootSystemd(): boolean {
  const isPossible =
    process.getuid?.() === 0 &&
    existsSync('/lib/systemd/systemd') &&
    spawnSync('unshare', [...namespaces, '--fork', 'sh', '-c', 'mount -t tmpfs tmpfs /mnt && mount -t proc proc /proc'])
      .status === 0
  if (!isPossible) console.log('skipped, missing: root, systemd, and the right to make namespaces')
  return isPossible
}

/** systemd as PID 1 of a container root. */
export interface SystemdRoot {
  /** Runs a command there. @returns stdout @throws Error with stdout and stderr where it fails */
  run(...command: string[]): Promise<string>
  close(): Promise<void>
}

/**
 * @param folder empty, for the root
 * @param bound folders and files that it sees read-only, by their paths there
 */
export async function bootSystemd(folder: string, bound: Readonly<Record<string, string>>): Promise<SystemdRoot> {
  const root = join(folder, 'root')
  mkdirSync(root)
  const sources = Object.entries(bound).map(([target, source]) => `${source}:${target}`)
  // The kernel ends every process of the namespaces with their PID 1.
  const child = spawn('unshare', [...namespaces, '--fork', '--kill-child', bootScript, root, ...sources], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const log: string[] = []
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data: Buffer) => log.push(data.toString()))
  const close = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const closed = new Promise((resolve) => child.once('close', resolve))
    child.kill('SIGKILL')
    await closed
  }
  const run = (...command: string[]) =>
    runIn(child, command).catch(async (error: Error) => {
      throw new Error(`${error.message}\n${await runIn(child, ['journalctl', '-o', 'cat', '-n', '30']).catch(() => '')}`)
    })
  for (let tries = 0; ; tries++) {
    const state = await run('systemctl', 'is-system-running').catch((error: Error) => error.message)
    if (/^(running|degraded)/.test(state)) return { run, close }
    if (tries === 100) {
      await close()
      throw new Error(`systemd has not booted: ${state}\n${log.join('')}`)
    }
    await delay(100)
  }
}

function runIn({ pid = 0 }: ChildProcess, command: readonly string[]): Promise<string> {
  // unshare's child; PID 1 there.
  const init = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim()
  return new Promise((resolve, reject) => {
    execFile('nsenter', ['--target', init, '--all', ...command], { encoding: 'utf8', env }, (error, stdout, stderr) => {
      if (error) reject(new Error(`${stdout}${stderr}` || error.message))
      else resolve(stdout)
    })
  })
}

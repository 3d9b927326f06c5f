import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { BrimError } from '../../core/kit/base/errors.ts'
import { projectRoot } from '../../core/kit/base/version.ts'
import { freePort } from './free-port.ts'
import { endProcess, startListening } from './listening-process.ts'

/** The configuration that docs/brokers.md recommends to operators. */
const recommendedConfig = fileURLToPath(new URL('docs/brokers/mosquitto.conf', projectRoot))
const pluginName = 'mosquitto_dynamic_security.so'
const admin = { name: 'brim-admin', password: 'for-tests-on-loopback' }

/** A real mosquitto as a process, on a free loopback port. */
export interface Mosquitto extends AsyncDisposable {
  readonly url: string
  readonly pid: number
  /** For --broker-admin-file; undefined: the broker accepts every client. */
  readonly adminFile: string | undefined
  /** SIGKILL, then a new process on the same port with the same files. Resolves when it listens. */
  restart(): Promise<void>
}

/** Why this machine cannot run mosquitto; undefined: it can. */
export function mosquittoProblem(): string | undefined {
  if (spawnSync('mosquitto', ['-h']).error !== undefined) return 'mosquitto is not installed (apt-get install mosquitto)'
  return pluginPath() === undefined ? "mosquitto's dynamic-security plug-in is not installed" : undefined
}

/**
 * Starts mosquitto with the recommended configuration, on a free port and in a temporary folder.
 * @param options `guarded: false` drops access control: the broker accepts every client
 * @throws BrimError PREREQUISITE_MISSING
 */
export async function startMosquitto({ guarded }: { guarded: boolean }): Promise<Mosquitto> {
  const problem = mosquittoProblem()
  if (problem !== undefined)
    throw new BrimError('PREREQUISITE_MISSING', problem, { hint: 'install it, or choose another broker' })
  const dir = await mkdtemp(join(tmpdir(), 'brim-mosquitto-'))
  const port = await freePort()
  const config = join(dir, 'mosquitto.conf')
  const security = join(dir, 'dynamic-security.json')
  const adminFile = join(dir, 'admin')
  await writeFile(config, guarded ? guardedConfig(port, security) : openConfig(port))
  if (guarded) {
    const init = spawnSync('mosquitto_ctrl', ['dynsec', 'init', security, admin.name, admin.password])
    if (init.status !== 0) throw new Error(`mosquitto_ctrl exited with ${init.status}: ${init.stderr}`)
    await writeFile(adminFile, `${admin.name}:${admin.password}\n`, { mode: 0o600 })
  }
  const launch = () => startListening(['mosquitto', '-c', config], port)
  let child = await launch()
  return {
    url: `mqtt://127.0.0.1:${port}`,
    get pid() {
      return child.pid ?? 0
    },
    adminFile: guarded ? adminFile : undefined,
    async restart() {
      await endProcess(child, 'SIGKILL')
      child = await launch()
    },
    async [Symbol.asyncDispose]() {
      await endProcess(child, 'SIGTERM')
      await rm(dir, { recursive: true, force: true })
    },
  }
}

function guardedConfig(port: number, security: string): string {
  const config = readFileSync(recommendedConfig, 'utf8')
    .replace(/^listener 1883 .*$/m, `listener ${port} 127.0.0.1`)
    .replace(/^plugin .*$/m, `plugin ${pluginPath()}`)
    .replace(/^plugin_opt_config_file .*$/m, `plugin_opt_config_file ${security}`)
  // Started by root, mosquitto would switch to a user that cannot read these files.
  return process.getuid?.() === 0 ? `${config}\nuser root\n` : config
}

const openConfig = (port: number) =>
  guardedConfig(port, '')
    .replace(/^plugin.*\n/gm, '')
    .replace('allow_anonymous false', 'allow_anonymous true')

function pluginPath(): string | undefined {
  const roots = ['/usr/lib', '/usr/local/lib', '/opt/homebrew/lib'].filter((root) => existsSync(root))
  const folders = roots.flatMap((root) => [root, ...readdirSync(root).map((name) => join(root, name))])
  return folders.map((folder) => join(folder, pluginName)).find((path) => existsSync(path))
}

import childProcess from 'node:child_process'
import { syncBuiltinESMExports } from 'node:module'
import net from 'node:net'

/** Unit tests run in seconds and anywhere: one that opens a port or starts a process fails here. */
const refuse = (act: string) => (): never => {
  throw new Error(`a unit test ${act}: name its file *.integration.test.ts`)
}

net.Server.prototype.listen = refuse('opens a port')
for (const name of ['spawn', 'spawnSync', 'fork', 'exec', 'execSync', 'execFile', 'execFileSync'] as const)
  childProcess[name] = refuse('starts a process') as never
syncBuiltinESMExports()

import { execFileSync } from 'node:child_process'

interface RunOptions {
  readonly cwd?: string
  /** Variables beside those of this process. */
  readonly env?: Readonly<Record<string, string>>
}

/** Runs a program to its end; what it prints goes to stderr. @throws Error where it fails */
export function runTool(file: string, args: readonly string[], { cwd, env = {} }: RunOptions = {}): void {
  const set = Object.entries(env).map(([name, value]) => `${name}=${value}`)
  execFileSync('env', [...set, file, ...args], { cwd, stdio: ['ignore', process.stderr, process.stderr] })
}

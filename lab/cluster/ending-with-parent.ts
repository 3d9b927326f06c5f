import { existsSync } from 'node:fs'

/** Of util-linux. Absolute: processes of tests have no PATH. */
const setpriv = ['/usr/bin/setpriv', '/bin/setpriv']

/**
 * Words before a command that let the kernel kill it when the process that starts it ends, even by SIGKILL, and even while the
 * command is suspended or computes. None where setpriv is missing.
 */
export function endingWithParent(): string[] {
  const program = setpriv.find((path) => existsSync(path))
  return program === undefined ? [] : [program, '--pdeathsig', 'KILL', '--']
}

/**
 * For tests that need a program or file which the machine may lack: prints why they are skipped. Under CI=true no test
 * may be skipped.
 * @returns whether to skip
 * @throws Error under CI=true, where something is missing
 */
export function isMissing(what: string, isPresent: boolean): boolean {
  if (isPresent) return false
  if (process.env.CI === 'true') throw new Error(`missing: ${what}; under CI=true no test may be skipped`)
  console.log(`skipped, missing: ${what}`)
  return true
}

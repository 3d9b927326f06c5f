import { postgresProblem } from '../../lab/cluster/postgres.ts'
import { isMissing } from './prerequisites.ts'

/** Whether to skip a test that needs PostgreSQL. @throws Error under CI=true */
export function postgresMissing(): boolean {
  const problem = postgresProblem()
  return problem !== undefined && isMissing(problem, false)
}

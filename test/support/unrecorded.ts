import type { BegunAnswer } from '../../agent/disco/endpoint.ts'
import type { AnswerRequest } from '../../core/answer/endpoint/endpoint.ts'

/** Of an endpoint without ledger and rules. */
export const unrecorded = async (request: AnswerRequest): Promise<BegunAnswer> => ({ request, end() {} })

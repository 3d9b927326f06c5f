import { z } from 'zod'

/** Options of the commands that stand for other machines. */
export const paceOptions = {
  stepMs: z.number().min(0).default(0).describe('duration of each step of the model, in ms'),
  rowMs: z.number().min(0).default(0).describe('further duration for each token that the step computes, in ms'),
}

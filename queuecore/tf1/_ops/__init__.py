"""Operations on tensors: arithmetic, arrays, strings, decoders, variables, and control flow."""

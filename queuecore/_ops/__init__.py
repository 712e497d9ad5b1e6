"""Operations on elements, as stages of a pipeline and as functions of arrays."""
